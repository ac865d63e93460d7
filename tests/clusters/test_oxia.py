"""Real bookies whose metadata is in a real Oxia, with Pulsar's driver: read, dumped, compared and audited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from auditor import Audit
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.options import AuditOptions
from auditor.sources.metadata.dump.save import SaveRequest, new_file, save
from auditor.sources.metadata.ledgers import StoredLedger, list_ledgers
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import choose_layout, open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.corpora.audited import Audited
from tests.servers.bookies.driver import Bookies
from tests.servers.oxia import Oxia, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = 2**31
"""From here on ids lie in the tree of long ones."""
WHOLE = (LONG - 1, LONG, LONG + 1)
LACKING = 77
OPTIONS = StoreOptions(rate_limit=0)


class OnOxia(NamedTuple):
    """A cluster of three bookies; of a ledger the third lacks entries 5 to 8."""

    oxia: Oxia
    bookies: Bookies


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnOxia]:
    root = tmp_path_factory.mktemp("oxia")
    with (
        running(root / "oxia", shards=2) as oxia,
        Bookies(oxia.uri, root, "InterleavedLedgerStorage", (None, None, None)) as bookies,
    ):
        for ledger in WHOLE:
            bookies.write(ledger, bookies.ids, 3, 2, 5)
        bookies.record(LACKING, bookies.ids, 3, 2, 8)
        for bookie, entries in zip(bookies.ids, (9, 9, 5), strict=True):
            bookies.add(LACKING, bookie, range(entries))
        bookies.flush()
        yield OnOxia(oxia, bookies)


def test_registrations_are_ephemeral_and_cookies_are_not(cluster: OnOxia) -> None:
    with closing(open_store(cluster.oxia.uri, OPTIONS)) as store:
        nodes = store.cluster()
        assert choose_layout(store, nodes)[0] is LayoutKind.HIERARCHICAL
    for bookie in cluster.bookies.ids:
        assert nodes.nodes[f"available/{bookie}"].ephemeral_owner > 0
        assert nodes.nodes[f"cookies/{bookie}"].ephemeral_owner == 0
    assert "INSTANCEID" in nodes.nodes


def test_ledgers_of_both_trees_are_listed_live_and_in_a_dump(cluster: OnOxia, tmp_path: Path) -> None:
    file = tmp_path / "oxia.jsonl"
    with new_file(file) as out:
        save(SaveRequest(parse_metadata_uri(cluster.oxia.uri), (), True, OPTIONS), out)
    for uri in (cluster.oxia.uri, f"dump://{file}"):
        ledgers = [item for item in list_ledgers(uri, 0, OPTIONS) if isinstance(item, StoredLedger)]
        assert {ledger.ledger.id for ledger in ledgers} == {*WHOLE, LACKING}
        assert all(ledger.metadata is not None and ledger.damage is None for ledger in ledgers)


def test_an_audit_finds_the_missing_copies_and_writes_nothing(
    cluster: OnOxia, spark: SparkSession, tmp_path: Path
) -> None:
    before = cluster.oxia.offsets()
    options = AuditOptions(grace=0, timeout=10)
    report = Audit(cluster.oxia.uri, [str(cluster.bookies.directory)], str(tmp_path / "run"), options).run(
        spark
    )
    audited = Audited(report, tmp_path / "run")
    [finding] = audited.of("below-write-quorum")
    assert (finding["ledger_id"], finding["confidence"]) == (LACKING, "confirmed")
    assert cluster.oxia.offsets() == before
