"""``bkaudit ledger`` on a real ZooKeeper says what it says on the dump of the same tree."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.embedded.zookeeper import EmbeddedZooKeeper

DATA = Path(__file__).parents[1] / "data" / "interleaved-hier"


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The same tree, saved and served."""
    work = tmp_path_factory.mktemp("ledger")
    dump = work / "metadata.jsonl"
    dump.write_bytes(gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()))
    shutil.copytree(DATA / "zookeeper" / "version-2", work / "server" / "version-2")
    with EmbeddedZooKeeper(work / "server") as server:
        yield f"dump://{dump}", f"zk://{server.hosts}/ledgers"


def said(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["ledger", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_show_says_the_same_of_a_ledger(uris: tuple[str, str]) -> None:
    saved, live = (said("show", "--metadata", uri, "--ledger-id", "28") for uri in uris)
    assert saved == live
    assert "127.0.101.1:3181" in live
    assert "golden" not in live  # the password of every ledger of this cluster


def test_list_says_the_same_of_every_ledger(uris: tuple[str, str]) -> None:
    saved, live = (said("list", "--metadata", uri).splitlines() for uri in uris)
    assert sorted(saved) == sorted(live)
    assert len({json.loads(line)["ledger_id"] for line in live}) == 70


def test_a_server_that_is_not_there_is_unreachable() -> None:
    result = CliRunner().invoke(main, ["ledger", "list", "--metadata", "zk://127.0.0.1:1/ledgers"])
    assert result.exit_code == 4
    assert "127.0.0.1:1" in result.output
