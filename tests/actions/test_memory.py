"""The data that a later run must read before it drops a hold of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from auditor.actions.finding_holds import NEW_HOLD_COLUMNS
from auditor.actions.memory import (
    ReadFacts,
    add_carried_holds,
    find_unreadable_cookie_pairs,
    unchecked_findings,
)
from auditor.actions.run_inputs import UNNAMED_STORE, RunInputs
from auditor.checks import ALL_CHECKS
from auditor.model.holds import ActionKind, FactReason, HoldTarget, LiftCondition
from auditor.spark.batches import arrow_frame
from auditor.tables.changes import CHANGES
from auditor.tables.holds import HOLDS
from tests.findings.changed_runs import row as change
from tests.plan.made import hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EAST, WEST, H2_EAST = "pulsar:zk://h1/east", "pulsar:zk://h1/west", "pulsar:zk://h2/east"
ALL_READ = RunInputs(entry_logs=1, answers=1, owner_stores=(EAST, WEST))
BOOKIE = "a:1"


def a_hold(reason: str, key: str = BOOKIE, object: str = "bookie", **columns: Any) -> dict[str, Any]:
    lift = LiftCondition.FACT_GONE if reason == "unindexed-bytes" else LiftCondition.FINDING_GONE
    return hold(key, ActionKind.START, reason=reason, object=object) | {"lift": str(lift), **columns}


WHOLE = ReadFacts(
    is_metadata_whole=True,
    are_registrations_whole=True,
    read_bookies=frozenset({BOOKIE}),
    needed_bookies=frozenset(),
    is_anything_missing=False,
    unchecked_pairs=frozenset(),
)


def carry_holds(
    spark: SparkSession,
    holds: list[dict[str, Any]],
    facts: ReadFacts,
    changes: Sequence[dict[str, Any]] = (),
    undecided: Mapping[int, bool] | None = None,
) -> set[str]:
    """Return the reasons of earlier holds that stay although this run no longer reports them."""
    import pyarrow as pa

    new = pa.schema([HOLDS.field(name) for name in NEW_HOLD_COLUMNS])
    rows = arrow_frame(spark, pa.Table.from_pylist([*changes], CHANGES))
    unseen = {(row["id"], row["bookie_id"]) for row in unchecked_findings(rows).collect()}
    kept_rows = add_carried_holds(
        arrow_frame(spark, new.empty_table()),
        arrow_frame(spark, pa.Table.from_pylist(holds, HOLDS)),
        rows,
        replace(facts, unchecked_pairs=frozenset(unseen)),
        1,
        spark.createDataFrame(
            [(0, ledger, is_unread) for ledger, is_unread in (undecided or {}).items()],
            "scope_id bigint, ledger_id bigint, unread_record boolean",
        ),
    )
    return {row["reason"] for row in kept_rows.collect()}


def stays(spark: SparkSession, holds: list[dict[str, Any]], data: RunInputs, *earlier: RunInputs) -> set[str]:
    """Return the reasons that stay although unreported; the last of ``earlier`` is the previous run."""
    inputs = RunInputs()
    for run in earlier:
        inputs = inputs.merge_inputs(run)
    lost, lost_carried = data.reasons_lacking_input(earlier[-1]), data.reasons_lacking_input(inputs)
    return carry_holds(
        spark, holds, replace(WHOLE, unchecked_reasons=lost, unchecked_carried_reasons=lost_carried)
    )


REASONS = ["gc-would-delete-live", "unindexed-bytes", "index-incomplete", "owner-dangling"]


@pytest.mark.parametrize(
    ("run", "reasons"),
    [
        (ALL_READ, set()),
        (RunInputs(0, 1, (EAST, WEST)), {"gc-would-delete-live", "unindexed-bytes"}),
        (RunInputs(1, 0, (EAST, WEST)), {"index-incomplete"}),
        (RunInputs(1, 1, (EAST,)), {"owner-dangling"}),
        (RunInputs(1, 1, (EAST, H2_EAST)), {"owner-dangling"}),
        (RunInputs(1, 1, (EAST, H2_EAST, WEST)), set()),
    ],
)
def test_hold_stays_if_a_run_lacks_its_input(spark: SparkSession, run: RunInputs, reasons: set[str]) -> None:
    holds = [*map(a_hold, REASONS), a_hold("cookie-missing")]
    assert stays(spark, holds, run, ALL_READ) == reasons


def test_carried_holds_stay_until_a_run_reads_as_much_again(spark: SparkSession) -> None:
    carried = [a_hold(reason, carried=True) for reason in REASONS]
    assert stays(spark, carried, RunInputs(), ALL_READ, RunInputs()) == {*REASONS}
    assert stays(spark, carried, ALL_READ, ALL_READ, RunInputs()) == set()
    # What the run before found again without them does not rest on them.
    assert (
        stays(spark, [a_hold(reason) for reason in REASONS[:1]], RunInputs(), ALL_READ, RunInputs()) == set()
    )


def test_entry_log_hold_ends_when_logs_of_its_bookie_are_read(spark: SparkSession) -> None:
    log = a_hold("unindexed-bytes", f"{BOOKIE} 1", "entry-log")
    assert stays(spark, [log], ALL_READ, ALL_READ) == set()
    assert stays(spark, [log], RunInputs(0, 1, (EAST, WEST)), ALL_READ) == {"unindexed-bytes"}
    other_hold = a_hold("unindexed-bytes", "b:1 1", "entry-log")
    assert stays(spark, [other_hold], ALL_READ, ALL_READ) == {"unindexed-bytes"}


def test_unnamed_owner_stores_of_earlier_versions_are_compared_by_count() -> None:
    """Runs of earlier versions record how many stores any run before had read, but not which."""
    counted = RunInputs(owner_stores=(UNNAMED_STORE, EAST))
    assert RunInputs(owner_stores=(EAST,)).reasons_lacking_input(counted)
    assert not RunInputs(owner_stores=(EAST, H2_EAST)).reasons_lacking_input(counted)
    assert RunInputs(owner_stores=(WEST, H2_EAST)).reasons_lacking_input(counted)


def test_merged_run_inputs_have_each_owner_store_once() -> None:
    joined = RunInputs(owner_stores=(EAST,)).merge_inputs(RunInputs(owner_stores=(EAST, WEST)))
    assert joined.owner_stores == (EAST, WEST)


LOST = a_hold("entry-lost", "7", "ledger")


@pytest.mark.parametrize(
    ("severity", "kept_reasons"), [("critical", {"entry-lost"}), ("error", set())], ids=["unread", "read"]
)
@pytest.mark.parametrize("row", [LOST, a_hold("entry-lost")], ids=["ledger", "bookie"])
def test_milder_finding_does_not_lift_a_hold_that_is_known_to_be_worse(
    spark: SparkSession, row: dict[str, Any], severity: str, kept_reasons: set[str]
) -> None:
    """An unread bookie lacks the entry: entry-lost is now below-ack-quorum, but is known to be worse."""
    milder = change("below-ack-quorum", 7, missing=2, change="same", known_severity=severity, known_missing=2)
    assert carry_holds(spark, [row], WHOLE, [milder]) == kept_reasons


@pytest.mark.parametrize("reason", ["entry-lost", "owner-dangling", "replica-mismatch"])
def test_hold_on_an_unread_bookie_stays_while_its_check_has_findings(
    spark: SparkSession, reason: str
) -> None:
    """The ledger's finding remains. It does not name the bookie, because nobody read that bookie."""
    unread = replace(WHOLE, read_bookies=frozenset(), checks_with_findings=frozenset({reason}))
    assert carry_holds(spark, [a_hold(reason)], unread) == {reason}
    assert carry_holds(spark, [a_hold(reason)], replace(unread, read_bookies=frozenset({BOOKIE}))) == set()
    assert carry_holds(spark, [a_hold(reason)], replace(unread, checks_with_findings=frozenset())) == set()


@pytest.mark.parametrize("reason", ["last-known-copy", "open-ledgers", "foreign-copy", "unindexed-bytes"])
def test_fact_holds_stay_if_metadata_is_not_whole(spark: SparkSession, reason: str) -> None:
    row = a_hold(reason) | {"lift": "fact-gone"}
    assert carry_holds(spark, [row], replace(WHOLE, is_metadata_whole=False)) == {reason}
    assert carry_holds(spark, [row], WHOLE) == set()


def test_source_too_old_hold_stays_until_its_bookie_is_read(spark: SparkSession) -> None:
    row = a_hold("source-too-old", f"bookie {BOOKIE}", "source") | {"lift": "fact-gone"}
    assert carry_holds(spark, [row], replace(WHOLE, read_bookies=frozenset())) == {"source-too-old"}
    assert carry_holds(spark, [row], WHOLE) == set()


def test_entry_lost_needs_entry_logs_if_an_index_listed_entries_of_missing_logs() -> None:
    """An index lists the entries, so their ledgers look healthy unless entry logs are read."""
    read = RunInputs(entry_logs=1, gone_entries=1)
    assert "entry-lost" in RunInputs().reasons_lacking_input(read)
    assert "entry-lost" not in RunInputs(entry_logs=1).reasons_lacking_input(read)
    assert "entry-lost" not in RunInputs().reasons_lacking_input(RunInputs(entry_logs=1))


UNREAD = {
    "bookie": replace(WHOLE, read_bookies=frozenset(), is_anything_missing=True),
    "metadata": replace(WHOLE, is_metadata_whole=False, is_anything_missing=True),
    "registrations": replace(WHOLE, are_registrations_whole=False),
    "entry logs": replace(WHOLE, unread_log_keys=frozenset({BOOKIE, f"{BOOKIE} 1"})),
    "copies of the ledger": WHOLE,
    "record of a ledger": replace(WHOLE, bookies_with_unread_records=frozenset({BOOKIE})),
    "record of a ledger elsewhere": replace(WHOLE, bookies_with_unread_records=frozenset({"b:1"})),
}
"""What a run did not read, and may therefore not find."""
OF_LEDGERS = ("bookie", "metadata", "record of a ledger")
RESTS_ON: dict[FactReason, tuple[str, ...]] = {
    FactReason.LAST_KNOWN_COPY: OF_LEDGERS,
    FactReason.LAST_SERVED_COPY: ("registrations", "metadata", "record of a ledger"),
    FactReason.NON_MEMBER_COPY: OF_LEDGERS,
    FactReason.UNREAD_DISK: ("bookie",),
    FactReason.INDEX_DAMAGED: OF_LEDGERS,
    FactReason.UNINDEXED_BYTES: (*OF_LEDGERS, "entry logs"),
    FactReason.COPIES_DIFFER: OF_LEDGERS,
    FactReason.NO_MEMBER_REGISTERED: ("registrations", "metadata", "record of a ledger"),
    FactReason.COPIES_ON_DOWN_BOOKIES: (
        "registrations", "metadata", "copies of the ledger", "record of a ledger",
    ),
    FactReason.OPEN_LEDGERS: (*OF_LEDGERS, "record of a ledger elsewhere"),
    FactReason.SOURCE_TOO_OLD: ("bookie",),
    FactReason.OWNERS_NOT_READ: ("metadata",),
}  # fmt: skip
OBJECTS = {
    FactReason.NO_MEMBER_REGISTERED: ("7", "ledger"),
    FactReason.COPIES_ON_DOWN_BOOKIES: ("7", "ledger"),
    FactReason.SOURCE_TOO_OLD: (f"bookie {BOOKIE}", "source"),
    FactReason.OWNERS_NOT_READ: ("owners", "source"),
}


def test_every_fact_reason_has_its_needed_data_listed() -> None:
    assert RESTS_ON.keys() == {*FactReason}


@pytest.mark.parametrize("unread", UNREAD)
def test_fact_missing_from_unread_data_does_not_lift_its_hold(spark: SparkSession, unread: str) -> None:
    """Absence in a source that was not read completely is unknown."""
    rows = [
        a_hold(str(reason), *OBJECTS.get(reason, (BOOKIE, "bookie"))) | {"lift": str(LiftCondition.FACT_GONE)}
        for reason in FactReason
    ]
    rows.append(a_hold("unindexed-bytes", f"{BOOKIE} 1", "entry-log"))
    rows.append(a_hold("bookie-alias") | {"lift": str(LiftCondition.DATA_ELSEWHERE)})
    undecided = {"copies of the ledger": {7: False}, "record of a ledger": {7: True}}.get(unread)
    kept_reasons = carry_holds(spark, rows, UNREAD[unread], undecided=undecided)
    expected = {str(reason) for reason in FactReason if unread in RESTS_ON[reason]}
    expected |= {"bookie-alias"} if unread in ("bookie", "metadata") else set()
    assert kept_reasons == expected


def test_unchecked_finding_does_not_lift_its_hold(spark: SparkSession) -> None:
    """A finding that was not checked is `Change.UNCHECKED`, whatever data its check needs."""
    checks = [
        check.id for check in ALL_CHECKS if any(rule.target is HoldTarget.BOOKIE for rule in check.holds)
    ]
    rows = [a_hold(id) for id in checks]
    unseen = [change(id, bookie=BOOKIE, change="unseen") for id in checks]
    assert carry_holds(spark, rows, WHOLE, unseen) == {*checks}
    assert carry_holds(spark, rows, WHOLE) == set()


def test_other_unread_logs_do_not_keep_a_hold(spark: SparkSession) -> None:
    log = a_hold("unindexed-bytes", f"{BOOKIE} 1", "entry-log")
    facts = replace(WHOLE, unread_log_keys=frozenset({"b:1", f"{BOOKIE} 2"}))
    assert carry_holds(spark, [log, a_hold("unindexed-bytes")], facts) == set()


def test_unreadable_cookie_pairs_have_the_checks_of_cookie_content() -> None:
    cookies: list[dict[str, Any]] = [
        {"bookie_id": BOOKIE, "damage": "cut"},
        {"bookie_id": "b:1", "damage": None},
    ]
    doubted = find_unreadable_cookie_pairs(cookies)
    assert {bookie for _, bookie in doubted} == {BOOKIE}
    ids = {id for id, _ in doubted}
    assert {"instance-mismatch", "cookie-key-mismatch", "dirset-mismatch"} <= ids
    assert "cookie-unreadable" not in ids, "that cookie itself can be read again"
