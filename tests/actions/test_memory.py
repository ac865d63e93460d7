"""What a later run has to have read before it lets go of a hold of an earlier one."""

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

EAST, WEST, OTHER = "pulsar:zk://h1/east", "pulsar:zk://h1/west", "pulsar:zk://h2/east"
ALL_READ = RunInputs(entry_logs=1, answers=1, owner_stores=(EAST, WEST))
BOOKIE = "a:1"


def held(reason: str, key: str = BOOKIE, object: str = "bookie", **more: Any) -> dict[str, Any]:
    lift = LiftCondition.FACT_GONE if reason == "unindexed-bytes" else LiftCondition.FINDING_GONE
    return hold(key, ActionKind.START, reason=reason, object=object) | {"lift": str(lift), **more}


WHOLE = ReadFacts(
    is_metadata_whole=True,
    are_registrations_whole=True,
    read_bookies=frozenset({BOOKIE}),
    needed_bookies=frozenset(),
    is_anything_missing=False,
    unchecked_pairs=frozenset(),
)


def remembered(
    spark: SparkSession,
    holds: list[dict[str, Any]],
    seen: ReadFacts,
    changes: Sequence[dict[str, Any]] = (),
    undecided: Mapping[int, bool] | None = None,
) -> set[str]:
    """Reasons that stay although nothing says them any more."""
    import pyarrow as pa

    new = pa.schema([HOLDS.field(name) for name in NEW_HOLD_COLUMNS])
    rows = arrow_frame(spark, pa.Table.from_pylist([*changes], CHANGES))
    unseen = {(row["id"], row["bookie_id"]) for row in unchecked_findings(rows).collect()}
    kept_rows = add_carried_holds(
        arrow_frame(spark, new.empty_table()),
        arrow_frame(spark, pa.Table.from_pylist(holds, HOLDS)),
        rows,
        replace(seen, unchecked_pairs=frozenset(unseen)),
        1,
        spark.createDataFrame(
            [(0, ledger, is_unread) for ledger, is_unread in (undecided or {}).items()],
            "scope_id bigint, ledger_id bigint, unread_record boolean",
        ),
    )
    return {row["reason"] for row in kept_rows.collect()}


def kept(spark: SparkSession, holds: list[dict[str, Any]], now: RunInputs, *earlier: RunInputs) -> set[str]:
    """Reasons that stay although nothing says them any more; the last of ``earlier`` is the run before."""
    known = RunInputs()
    for run in earlier:
        known = known.merge_inputs(run)
    lost, lost_carried = now.reasons_lacking_input(earlier[-1]), now.reasons_lacking_input(known)
    return remembered(
        spark, holds, replace(WHOLE, unchecked_reasons=lost, unchecked_carried_reasons=lost_carried)
    )


OF_OPTIONS = ["gc-would-delete-live", "unindexed-bytes", "index-incomplete", "owner-dangling"]


@pytest.mark.parametrize(
    ("now", "reasons"),
    [
        (ALL_READ, set()),
        (RunInputs(0, 1, (EAST, WEST)), {"gc-would-delete-live", "unindexed-bytes"}),
        (RunInputs(1, 0, (EAST, WEST)), {"index-incomplete"}),
        (RunInputs(1, 1, (EAST,)), {"owner-dangling"}),
        (RunInputs(1, 1, (EAST, OTHER)), {"owner-dangling"}),
        (RunInputs(1, 1, (EAST, OTHER, WEST)), set()),
    ],
)
def test_holds_stay_where_a_run_read_less(spark: SparkSession, now: RunInputs, reasons: set[str]) -> None:
    holds = [*map(held, OF_OPTIONS), held("cookie-missing")]
    assert kept(spark, holds, now, ALL_READ) == reasons


def test_holds_that_were_carried_on_stay_until_a_run_reads_as_much_again(spark: SparkSession) -> None:
    carried = [held(reason, carried=True) for reason in OF_OPTIONS]
    assert kept(spark, carried, RunInputs(), ALL_READ, RunInputs()) == {*OF_OPTIONS}
    assert kept(spark, carried, ALL_READ, ALL_READ, RunInputs()) == set()
    # What the run before found again without them does not rest on them.
    assert (
        kept(spark, [held(reason) for reason in OF_OPTIONS[:1]], RunInputs(), ALL_READ, RunInputs()) == set()
    )


def test_the_hold_on_an_entry_log_goes_with_its_bytes(spark: SparkSession) -> None:
    log = held("unindexed-bytes", f"{BOOKIE} 1", "entry-log")
    assert kept(spark, [log], ALL_READ, ALL_READ) == set()
    assert kept(spark, [log], RunInputs(0, 1, (EAST, WEST)), ALL_READ) == {"unindexed-bytes"}
    other = held("unindexed-bytes", "b:1 1", "entry-log")
    assert kept(spark, [other], ALL_READ, ALL_READ) == {"unindexed-bytes"}


def test_stores_of_earlier_versions_are_counted() -> None:
    """Their runs say how many stores any run before had read, and not which."""
    counted = RunInputs(owner_stores=(UNNAMED_STORE, EAST))
    assert RunInputs(owner_stores=(EAST,)).reasons_lacking_input(counted)
    assert not RunInputs(owner_stores=(EAST, OTHER)).reasons_lacking_input(counted)
    assert RunInputs(owner_stores=(WEST, OTHER)).reasons_lacking_input(counted)


def test_a_store_that_is_known_twice_is_joined_once() -> None:
    joined = RunInputs(owner_stores=(EAST,)).merge_inputs(RunInputs(owner_stores=(EAST, WEST)))
    assert joined.owner_stores == (EAST, WEST)


LOST = held("entry-lost", "7", "ledger")


@pytest.mark.parametrize(
    ("known", "kept_reasons"), [("critical", {"entry-lost"}), ("error", set())], ids=["unread", "read"]
)
@pytest.mark.parametrize("row", [LOST, held("entry-lost")], ids=["ledger", "bookie"])
def test_a_finding_that_is_milder_as_less_was_read_lifts_nothing(
    spark: SparkSession, row: dict[str, Any], known: str, kept_reasons: set[str]
) -> None:
    """A bookie that lacks the entry is unread: entry-lost is below-ack-quorum now, and known to be worse."""
    milder = change("below-ack-quorum", 7, missing=2, change="same", known_severity=known, known_missing=2)
    assert remembered(spark, [row], WHOLE, [milder]) == kept_reasons


@pytest.mark.parametrize("reason", ["entry-lost", "owner-dangling", "replica-mismatch"])
def test_a_bookie_that_is_held_for_its_copy_is_read_before_it_is_let_go(
    spark: SparkSession, reason: str
) -> None:
    """The finding on the ledger stands, and does not name the bookie, because nobody read it."""
    unread = replace(WHOLE, read_bookies=frozenset(), checks_with_findings=frozenset({reason}))
    assert remembered(spark, [held(reason)], unread) == {reason}
    assert remembered(spark, [held(reason)], replace(unread, read_bookies=frozenset({BOOKIE}))) == set()
    assert remembered(spark, [held(reason)], replace(unread, checks_with_findings=frozenset())) == set()


@pytest.mark.parametrize("reason", ["last-known-copy", "open-ledgers", "foreign-copy", "unindexed-bytes"])
def test_facts_of_a_bookie_stay_while_metadata_was_not_read(spark: SparkSession, reason: str) -> None:
    row = held(reason) | {"lift": "fact-gone"}
    assert remembered(spark, [row], replace(WHOLE, is_metadata_whole=False)) == {reason}
    assert remembered(spark, [row], WHOLE) == set()


def test_a_source_is_old_until_its_bookie_is_read_again(spark: SparkSession) -> None:
    row = held("source-too-old", f"bookie {BOOKIE}", "source") | {"lift": "fact-gone"}
    assert remembered(spark, [row], replace(WHOLE, read_bookies=frozenset())) == {"source-too-old"}
    assert remembered(spark, [row], WHOLE) == set()


def test_entries_in_logs_that_are_gone_are_lost_to_those_who_read_logs() -> None:
    """An index has them: without the entry logs their ledgers are healthy."""
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


def test_every_fact_rests_on_something() -> None:
    assert RESTS_ON.keys() == {*FactReason}


@pytest.mark.parametrize("unread", UNREAD)
def test_a_fact_that_is_absent_because_it_was_not_read_lifts_nothing(
    spark: SparkSession, unread: str
) -> None:
    """Absence in a source that was not read completely is unknown."""
    rows = [
        held(str(reason), *OBJECTS.get(reason, (BOOKIE, "bookie"))) | {"lift": str(LiftCondition.FACT_GONE)}
        for reason in FactReason
    ]
    rows.append(held("unindexed-bytes", f"{BOOKIE} 1", "entry-log"))
    rows.append(held("bookie-alias") | {"lift": str(LiftCondition.DATA_ELSEWHERE)})
    undecided = {"copies of the ledger": {7: False}, "record of a ledger": {7: True}}.get(unread)
    kept_reasons = remembered(spark, rows, UNREAD[unread], undecided=undecided)
    expected = {str(reason) for reason in FactReason if unread in RESTS_ON[reason]}
    expected |= {"bookie-alias"} if unread in ("bookie", "metadata") else set()
    assert kept_reasons == expected


def test_a_finding_that_was_not_looked_for_lifts_nothing(spark: SparkSession) -> None:
    """Whatever a check rests on: what was not looked at is `Change.UNCHECKED`."""
    checks = [
        check.id for check in ALL_CHECKS if any(rule.target is HoldTarget.BOOKIE for rule in check.holds)
    ]
    rows = [held(id) for id in checks]
    unseen = [change(id, bookie=BOOKIE, change="unseen") for id in checks]
    assert remembered(spark, rows, WHOLE, unseen) == {*checks}
    assert remembered(spark, rows, WHOLE) == set()


def test_other_logs_that_were_not_read_keep_no_hold(spark: SparkSession) -> None:
    log = held("unindexed-bytes", f"{BOOKIE} 1", "entry-log")
    other = replace(WHOLE, unread_log_keys=frozenset({"b:1", f"{BOOKIE} 2"}))
    assert remembered(spark, [log, held("unindexed-bytes")], other) == set()


def test_a_cookie_that_cannot_be_read_lifts_no_hold_of_what_cookies_say() -> None:
    cookies: list[dict[str, Any]] = [
        {"bookie_id": BOOKIE, "damage": "cut"},
        {"bookie_id": "b:1", "damage": None},
    ]
    doubted = find_unreadable_cookie_pairs(cookies)
    assert {bookie for _, bookie in doubted} == {BOOKIE}
    ids = {id for id, _ in doubted}
    assert {"instance-mismatch", "cookie-key-mismatch", "dirset-mismatch"} <= ids
    assert "cookie-unreadable" not in ids, "that cookie itself can be read again"
