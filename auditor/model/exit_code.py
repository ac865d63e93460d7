"""The exit code of an audit that came to its end: a promise to whoever schedules it.

    0  clean, and all of it decided            1  confirmed findings at or above --fail-on
    3  nothing confirmed, but not all decided   5  input damaged beyond the budget

2 (wrong usage) and 4 (a source unreachable) end an audit before it has a report: `auditor.errors` knows them.
Of several that hold, 5 goes before 1, and 1 before 3. A finding at or above --fail-on that is not confirmed
leaves something undecided: 3, or 1 with --fail-on-suspect. What a suppression names counts for neither, and
what is undecided only for reasons that suppressions name is accepted.
"""

from __future__ import annotations

from auditor.model.finding import Confidence, Severity
from auditor.model.options import NEW, FailOn
from auditor.model.report import Report
from auditor.model.run_facts import Tally

CLEAN = 0
FOUND = 1
USAGE = 2
NOT_COVERED = 3
UNREACHABLE = 4
DAMAGED = 5

DAMAGE_SHARE = 0.10
"""With more than this share of the ledger records undecodable, and `DAMAGE_FLOOR`, nothing is judged."""

DAMAGE_FLOOR = 100
UNDECODABLE = "metadata-unreadable"


def exit_code(report: Report, fail_on: FailOn, fail_on_suspect: bool = False) -> int:
    """The code that an audit with this report ends with.

    With ``fail_on`` new and no run before, all is new. With ``fail_on_suspect`` findings of any confidence
    count as confirmed ones do.
    """
    undecodable = report.counts.get(UNDECODABLE, 0)
    if undecodable >= DAMAGE_FLOOR and undecodable > DAMAGE_SHARE * report.coverage.ledgers.total:
        return DAMAGED
    least = Severity.ERROR if fail_on == NEW else Severity(fail_on)
    fresh = fail_on == NEW and report.run.changes is not None
    bad = [
        tally
        for tally in report.run.tally
        if Severity(tally["severity"]).at_least(least) and _counting(tally, fresh)
    ]
    if any(fail_on_suspect or tally["confidence"] == Confidence.CONFIRMED for tally in bad):
        return FOUND
    return CLEAN if report.complete_but_accepted and not bad else NOT_COVERED


def _counting(tally: Tally, fresh: bool) -> int:
    return tally["new"] + tally["worse"] if fresh else tally["count"] - tally["suppressed"]
