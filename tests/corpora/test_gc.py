"""What each bookie's collector would delete, held to what the server's own classes deleted of the corpora."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from auditor.audit.space_scan import query_gc_forecast
from auditor.model.collector_settings import CollectorSettings
from auditor.model.ledger_id import LayoutKind
from auditor.model.run_facts import sentence_of
from auditor.tables.gc_foresight import CollectorInputs
from auditor.tables.gc_listing import ServerListing
from tests.corpora.audited import Asked, Audited
from tests.corpora.corpora import Corpus

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Deleted = dict[str, set[int]]


def deleted(rows: list[dict[str, object]], oracle: dict[str, object], *passes: str) -> Deleted:
    found: Deleted = {bookie: set() for bookie in oracle}
    for row in rows:
        if row["action"] == "delete" and row["pass"] in passes:
            assert isinstance(row["ledger_id"], int)
            found[str(row["bookie_id"])].add(row["ledger_id"])
    return found


def wanted(corpus: Corpus, which: str) -> Deleted:
    return {bookie: set(runs[which]) for bookie, runs in corpus.oracle["garbageCollector"].items()}


def made_again(asked: Asked, **settings: bool) -> list[dict[str, object]]:
    """The table as collectors with other settings make it."""
    tables = asked.tables
    collector = CollectorInputs(
        CollectorSettings(**settings),  # type: ignore[arg-type]
        LayoutKind(tables.cluster.layout),
        ServerListing(),
        tables.roster.aliases,
    )
    rows: DataFrame = query_gc_forecast(collector, tables)
    return [row.asDict() for row in rows.collect()]


def test_each_collector_deletes_what_the_servers_did(corpus: Corpus, audited: Audited) -> None:
    rows = audited.table("gc_foresight")
    oracle = corpus.oracle["garbageCollector"]
    assert deleted(rows, oracle, "listing") == wanted(corpus, "gc")
    both = deleted(rows, oracle, "listing", "over-replicated")
    assert both == wanted(corpus, "gcWithOverReplicated")


def test_with_metadata_verified_too(corpus: Corpus, asked: Asked) -> None:
    rows = made_again(asked, verify_metadata=True)
    assert deleted(rows, corpus.oracle["garbageCollector"], "listing") == wanted(
        corpus, "gcVerifyingMetadata"
    )


def test_what_is_deleted_is_right_but_for_the_renamed_bookie(corpus: Corpus, audited: Audited) -> None:
    wrong = {
        (row["bookie_id"], row["ledger_id"], row["reason"])
        for row in audited.table("gc_foresight")
        if row["verdict"] == "wrong"
    }
    renamed = {("bk-a.rack1", 5000000000006, "under-another-id")}
    assert wrong == (renamed if corpus.name == "dbledger-long" else set())
    assert not audited.of("gc-would-delete-live")
    notes = [note for note in map(sentence_of, audited.report.run.remarks) if "forecast" in note]
    assert notes == ["garbage collection forecast uses server defaults; pass --bookie-conf"]


@pytest.fixture(scope="module")
def flat(asked_of: Callable[[str], Asked]) -> Asked:
    return asked_of("flat-v1")


def test_collectors_that_are_switched_off_keep_what_is_over_replicated(flat: Asked) -> None:
    off = replace(CollectorSettings(), over_replicated_wait_ms=0)
    collector = CollectorInputs(off, LayoutKind.FLAT, ServerListing(), frozenset())
    rows = query_gc_forecast(collector, flat.tables).where("pass = 'over-replicated'").collect()
    assert {(row["action"], row["cause"], row["verdict"]) for row in rows} == {
        ("keep", "switched-off", "right")
    }
