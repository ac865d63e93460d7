"""A run, explained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.checks import ALL, BY_ID
from auditor.model.finding import Confidence, Finding, Severity, Standing, Urgency
from auditor.model.views import RunView, UnreadBookie
from auditor.reports.plain_text import columns_of
from auditor.reports.run import DOUBTS_SHOWN, TOLD_IN_FULL, UNREAD, render, steps_of
from tests.reports.samples import BELOW, LOST, coverage, report, tally

URGENT = (
    "metadata-suspect",
    "gc-would-delete-live",
    "entry-log-header-wrong",
    "bookie-alias",
    "alias-gc-danger",
    "instance-mismatch",
    "disk-version-missing",
    "disk-shared",
    "disk-content-mismatch",
)
"""What deletes or overwrites data by itself, in order."""

RUN = RunView(
    "runs/20261121T050749Z",
    report(),
    directories=6,
    unread=(UnreadBookie("bk-c:3181", "unread", "no source covers it", 20),),
    fail_on=Severity.ERROR,
    standings={LOST.fingerprint: Standing("same", 1_795_000_000_000)},
    storages={"bk-a:3181": "idx", "bk-b:3181": "rocksdb"},
)
TOP = """\
run        runs/20261121T050749Z, ended 2026-11-21 05:08:09 UTC, took 20 s
verdict    NOT-HEALTHY: 1 critical, 3 error, 12 note, 4 of them suppressed; not
           everything could be decided
why        something of warning or worse was found, 3 of it confirmed; suspected
           and suppressed findings count for the verdict too
exit code  1, with --fail-on error: something at or above that was found;
           suppressed findings do not count

looked at
  metadata zk://h1:2181;h2:2181/ledgers: a running store, hierarchical, at zxid
           0x16f and 0x171
  ledgers  118 of 120 decided
  replicas 340 of 360 decided
  bookies  2 of 3 read completely, in 6 directories
  reads    99 entries read whole, 210 getChildren, 3 multiRead, 340 open

not looked at
  bk-c:3181, not read: no source covers it; at most 20 replicas undecided

could not be seen
  nothing of bk-c:3181: what is not in a readable index is neither there nor
    missing; it concerns entry-lost, below-ack-quorum, below-write-quorum,
    replication-undecided, copy-lagging, mark-stale, orphan-ledger and 34 more

in doubt
  below-ack-quorum, 1 suspect: """
FIRST_STEP = """\
what to do, in this order
  1. entry-lost (critical; 1): A closed ledger has an entry with no copy left.
     as: entry 4 has no copy left (since: 2026-11-18 11:06:40 UTC)
     more: bkaudit explain ledger 9223372036854770002 --run runs/20261121T050749Z
     do     Stop whatever deletes data on these bookies before anything else,
"""
IN_SHORT = """\
in short
  1. entry-lost (1): stop what deletes data, and look for the disks of ledger
     9223372036854770002
  2. below-ack-quorum (3): have ledger 7 and 2 more copied again before another
     bookie stops
  worth knowing, nothing presses: orphan-ledger 8
  suppressed: orphan-ledger 4"""


def test_a_run_is_told_from_its_verdict_to_what_to_do_in_short() -> None:
    told = render(RUN, 80)
    assert told.startswith(TOP)
    assert FIRST_STEP in told
    assert told.endswith(IN_SHORT)


def test_commands_are_filled_in_and_say_their_risk() -> None:
    told = render(RUN, 80)
    command = "bookkeeper shell readledger -l 9223372036854770002 -fe 4 -le 3000 -b bk-a:3181"
    assert f"            {command}\n" in told
    assert told.count("Risk: ") == len(BY_ID["entry-lost"].commands) + len(BY_ID["below-ack-quorum"].commands)


def test_a_healthy_run_has_nothing_to_do() -> None:
    clean = report([], (), coverage(True), changes=None, suppressions=[], impact=[])
    told = render(RunView("runs/1", clean, 6, fail_on=Severity.WARNING), 80)
    assert "why        all of it was looked at and decided, and nothing worse than a note" in told
    assert "exit code  0, with --fail-on warning: " in told
    assert told.endswith("\n\nnothing has to be done")
    for heading in ("not looked at", "could not be seen", "in doubt"):
        assert heading not in told


def test_what_was_not_seen_is_a_step_of_an_incomplete_run() -> None:
    partly = report([tally(UNREAD, "note", 1, "unknown")], (), suppressions=[], impact=[])
    told = render(replace(RUN, report=partly), 80)
    assert "but what was not looked at could hold anything" in " ".join(told.split())
    assert "exit code  3, " in told
    assert "\n  1. bookie-unread (note; 1): " in told
    assert "bkaudit collect --bookies PATH --out DIR" in told


def test_what_destroys_data_by_itself_goes_before_what_is_missing() -> None:
    found = [tally(check.id, str(check.severity)) for check in ALL]
    steps = steps_of(report(found))
    ids = [step.check.id for step in steps if step.pressing]
    assert [*URGENT, "entry-lost"] == ids[: len(URGENT) + 1]
    assert ids.index(UNREAD) < ids.index("below-write-quorum")
    rest = [id for id in ids if BY_ID[id].urgency == Urgency.REST]
    assert ids[-len(rest) :] == rest
    assert [BY_ID[id].severity.rank for id in rest] == sorted(BY_ID[id].severity.rank for id in rest)
    urgent = [check.urgency.rank for check in map(BY_ID.__getitem__, ids)]
    assert urgent == sorted(urgent)
    assert set(URGENT) == {check.id for check in ALL if check.urgency == Urgency.DESTROYS_DATA}


def test_of_very_many_troubles_only_the_first_are_told_in_full() -> None:
    found = [tally(check.id, "critical", 10**9, "suspect") for check in ALL]
    told = render(replace(RUN, report=report(found)), 80)
    assert told.count("\n     do     ") == TOLD_IN_FULL
    assert f"\n  {len(ALL)}. " in told
    assert len(told.splitlines()) < 600


def test_suppressed_findings_are_no_step() -> None:
    told = render(
        replace(RUN, report=report([tally("entry-lost", "critical", 3, suppressed=3)], (LOST,))), 80
    )
    assert "  1. " not in told
    assert told.endswith("what to do, in this order\n  suppressed: entry-lost 3")


def test_doubts_are_named_once_each_and_bounded() -> None:
    doubtful = [
        replace(BELOW, ledger_id=n, evidence={"doubts": ["the ledger is not closed", f"doubt {n}"]})
        for n in range(9)
    ]
    told = " ".join(render(replace(RUN, report=report(findings=tuple(doubtful))), 80).split())
    assert told.count("the ledger is not closed") == 1
    assert "; doubt 0; doubt 1 (and 7 other doubts)" in told
    assert DOUBTS_SHOWN == 3


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_line_but_commands_keeps_its_width(width: int) -> None:
    evil = Finding(
        "ghost-bookie", Severity.ERROR, Confidence.SUSPECT, bookie_id="\x1b]0;x\x07台" * 30, message="台" * 99
    )
    odd = report([tally("ghost-bookie", "error", 1, "suspect")], (evil,), gaps=["台" * 200] * 20)
    unread = tuple(UnreadBookie("b" * 99, "partial", "台" * 50, 3) for _ in range(10))
    told = render(replace(RUN, path="/runs/" + "r" * 200, report=odd, unread=unread), width)
    assert told.replace("\n", "").isprintable()
    lines = [line for line in told.splitlines() if "bookkeeper shell" not in line and "bkaudit" not in line]
    assert all(columns_of(line) <= width for line in lines)
