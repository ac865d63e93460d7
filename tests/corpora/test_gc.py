"""The deletions forecast for each bookie's collector, compared with those of the server's own classes."""

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
from tests.corpora.audited import FinishedRun, RunWithTables
from tests.corpora.corpora import Corpus

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LedgersByBookie = dict[str, set[int]]


def forecast_deletions(
    rows: list[dict[str, object]], oracle: dict[str, object], *passes: str
) -> LedgersByBookie:
    ledgers_by_bookie: LedgersByBookie = {bookie: set() for bookie in oracle}
    for row in rows:
        if row["action"] == "delete" and row["pass"] in passes:
            assert isinstance(row["ledger_id"], int)
            ledgers_by_bookie[str(row["bookie_id"])].add(row["ledger_id"])
    return ledgers_by_bookie


def oracle_deletions(corpus: Corpus, run_name: str) -> LedgersByBookie:
    return {bookie: set(runs[run_name]) for bookie, runs in corpus.oracle["garbageCollector"].items()}


def foresight_with(audit_run: RunWithTables, **settings: bool) -> list[dict[str, object]]:
    """Return the garbage collection forecast for collectors with other settings."""
    tables = audit_run.tables
    collector = CollectorInputs(
        CollectorSettings(**settings),  # type: ignore[arg-type]
        LayoutKind(tables.cluster.layout),
        ServerListing(),
        tables.roster.aliases,
    )
    rows: DataFrame = query_gc_forecast(collector, tables)
    return [row.asDict() for row in rows.collect()]


def test_forecast_deletions_match_the_server_collectors(corpus: Corpus, audited: FinishedRun) -> None:
    rows = audited.table("gc_foresight")
    oracle = corpus.oracle["garbageCollector"]
    assert forecast_deletions(rows, oracle, "listing") == oracle_deletions(corpus, "gc")
    all_deletions = forecast_deletions(rows, oracle, "listing", "over-replicated")
    assert all_deletions == oracle_deletions(corpus, "gcWithOverReplicated")


def test_forecast_with_verified_metadata_matches_the_server(corpus: Corpus, asked: RunWithTables) -> None:
    rows = foresight_with(asked, verify_metadata=True)
    assert forecast_deletions(rows, corpus.oracle["garbageCollector"], "listing") == oracle_deletions(
        corpus, "gcVerifyingMetadata"
    )


def test_forecast_deletions_are_right_except_for_the_renamed_bookie(
    corpus: Corpus, audited: FinishedRun
) -> None:
    wrong = {
        (row["bookie_id"], row["ledger_id"], row["reason"])
        for row in audited.table("gc_foresight")
        if row["verdict"] == "wrong"
    }
    renamed = {("bk-a.rack1", 5000000000006, "under-another-id")}
    assert wrong == (renamed if corpus.name == "dbledger-long" else set())
    assert not audited.findings_of("gc-would-delete-live")
    notes = [note for note in map(sentence_of, audited.report.run.remarks) if "forecast" in note]
    assert notes == ["garbage collection forecast uses server defaults; pass --bookie-conf"]


@pytest.fixture(scope="module")
def flat(asked_of: Callable[[str], RunWithTables]) -> RunWithTables:
    return asked_of("flat-v1")


def test_disabled_over_replication_collection_keeps_the_ledgers(flat: RunWithTables) -> None:
    settings = replace(CollectorSettings(), over_replicated_wait_ms=0)
    collector = CollectorInputs(settings, LayoutKind.FLAT, ServerListing(), frozenset())
    rows = query_gc_forecast(collector, flat.tables).where("pass = 'over-replicated'").collect()
    assert {(row["action"], row["cause"], row["verdict"]) for row in rows} == {
        ("keep", "switched-off", "right")
    }
