"""One running cluster of each kind; tests say of which by parameters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.scenario import Kind, LiveCluster, live_cluster


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    kind: Kind = request.param
    with live_cluster(kind, tmp_path_factory.mktemp("live")) as running:
        yield running
