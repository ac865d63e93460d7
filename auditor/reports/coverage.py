"""Counts and verdict of a run for all forms of a report: what was checked, found, and left out."""

from collections import Counter
from typing import Literal, NamedTuple

from auditor.model.amounts import first_names, plural
from auditor.model.finding import Confidence, Finding, Severity, Urgency
from auditor.model.report import Report, is_unaccepted_loss
from auditor.model.run_facts import InDoubt, Reuse, Tally

_NAMES_SHOWN = 5
MAX_ACCEPTED_COLUMNS = 60
"""Largest width of the list of accepted findings by severity in a verdict. A longer list becomes a number."""
_COUNT_KEYS: tuple[Literal["count", "new", "worse", "suppressed"], ...] = (
    "count",
    "new",
    "worse",
    "suppressed",
)


CHECKED_WORD = "checked"
"""Word for ledgers and replicas that were judged. For bookies the word is "read"."""


class Extent(NamedTuple):
    """Number of ledgers, replicas or bookies that were checked or read, and the number of all in the cluster.

    ``open`` counts ledgers in which nothing can be decided yet. ``word`` is "checked" or "read".

    >>> str(Extent("ledgers", "checked", 1_200, 5_000)), str(Extent("ledgers", "checked", 30, 33, open=3))
    ('1,200 of 5,000 checked, 3,800 unknown', '30 of 33 checked, 3 open')
    """

    name: str
    word: str
    covered_count: int
    total: int
    open: int = 0

    @property
    def undecided(self) -> int:
        """Return how many objects should have been checked or read and were not."""
        return self.total - self.covered_count - self.open

    @property
    def sentence(self) -> str:
        """Return the counts with the name of the objects in place of "checked" or "read".

        >>> Extent("ledgers", "checked", 30, 35, open=3).sentence
        '30 of 35 ledgers, 2 unknown, 3 open'
        """
        return self._count_words(self.name)

    def __str__(self) -> str:
        return self._count_words(self.word)

    def _count_words(self, object_noun: str) -> str:
        unknown_clause = (
            f", {self.undecided:,} unknown" if self.undecided and self.word == CHECKED_WORD else ""
        )
        open_clause = f", {self.open:,} open" if self.open else ""
        return f"{self.covered_count:,} of {self.total:,} {object_noun}{unknown_clause}{open_clause}"


def checked_extents(report: Report) -> tuple[Extent, Extent, Extent]:
    """Return the extents of ledgers, replicas and bookies."""
    coverage = report.coverage
    return (
        Extent(
            "ledgers", CHECKED_WORD, coverage.ledgers.decided, coverage.ledgers.total, coverage.ledgers.open
        ),
        Extent("replicas", CHECKED_WORD, coverage.replicas.decided, coverage.replicas.expected),
        Extent("bookies", "read", coverage.bookies.read, coverage.bookies.expected),
    )


class CheckCount(NamedTuple):
    """Number of findings of one check with the same urgency and severity.

    ``sums`` has the keys ``count``, ``new``, ``worse``, ``suppressed`` and ``unsure`` (not confirmed). The
    field ``unsure`` has the number of findings for each confidence other than confirmed.
    """

    urgency: Urgency
    severity: Severity
    id: str
    sums: Counter[str]
    unsure: dict[str, int]


def count_by_check(report: Report) -> list[CheckCount]:
    """Return the counts of all findings by urgency, severity and check, in the order of reports."""
    counts: dict[tuple[Urgency, Severity, str], CheckCount] = {}
    for tally in sorted(report.run.tally, key=lambda tally: (tally_order(tally), tally["confidence"])):
        key = Urgency(tally["urgency"]), Severity(tally["severity"]), tally["id"]
        check_count = counts.setdefault(key, CheckCount(*key, Counter(), {}))
        check_count.sums.update({name: tally[name] for name in _COUNT_KEYS})
        if tally["confidence"] != Confidence.CONFIRMED:
            check_count.sums["unsure"] += tally["count"]
            check_count.unsure[tally["confidence"]] = tally["count"]
    return list(counts.values())


def tally_order(tally: Tally) -> tuple[int, int, int, str]:
    """Return a sort key that puts the counts of findings into the order of reports.

    A tally is the number of findings with the same check, urgency, severity and confidence.
    """
    from auditor.checks import check_order  # which status does without

    return check_order(tally["urgency"], tally["severity"], tally["id"])


def count_by_severity(report: Report) -> dict[Severity, Counter[str]]:
    """Return ``count``, ``new``, ``worse`` and ``suppressed`` for every severity, even without findings."""
    count_by_state = {severity: Counter[str]() for severity in Severity}
    for tally in report.run.tally:
        count_by_state[Severity(tally["severity"])].update({name: tally[name] for name in _COUNT_KEYS})
    return count_by_state


def severity_words(report: Report, suppressed: bool = True) -> str:
    """Return the number of findings of each severity in words, the worst first. Empty if there are none.

    Suppressed findings are not counted if ``suppressed`` is False.
    """
    count_by_state = count_by_severity(report)
    counts = {
        severity: count_by_state[severity]["count"]
        - (0 if suppressed else count_by_state[severity]["suppressed"])
        for severity in count_by_state
    }
    return ", ".join(f"{count:,} {severity}" for severity, count in counts.items() if count)


def count_findings_of_check(report: Report, finding: Finding) -> int:
    """Return how many findings of the run have the check, urgency and severity of this finding.

    The report has only samples of findings. This number counts all.
    """
    key = (finding.id, finding.urgency, finding.severity)
    return sum(
        tally["count"]
        for tally in report.run.tally
        if (tally["id"], tally["urgency"], tally["severity"]) == key
    )


def sample_count_text(shown_count: int, total: int) -> str:
    """Return a text on how many findings are shown, and of how many.

    >>> sample_count_text(2, 2), sample_count_text(5, 1_200)
    ('2', '5 of 1,200 shown')
    """
    return f"{total:,}" if total == shown_count else f"{shown_count:,} of {total:,} shown"


def verdict_word(verdict: str) -> str:
    """Return a verdict as screens spell it.

    >>> verdict_word("not-healthy")
    'NOT HEALTHY'
    """
    return verdict.upper().replace("-", " ")


def verdict(report: Report) -> str:
    """Return the verdict and its reasons in one line."""
    counts = severity_words(report) or "no finding"
    return f"{verdict_word(report.verdict)}: {'; '.join([counts, *verdict_clauses(report)])}"


def verdict_clauses(report: Report) -> list[str]:
    """Return the clauses of the verdict's line that follow the counts.

    They are about accepted findings, checks that did not run, objects that were not checked, and holds that
    are not accepted.
    """
    clauses = [_acceptance_clause(report)]
    if excluded_count := len(report.run.not_run):
        clauses.append(f"{plural(excluded_count, 'check was', 'checks were')} not run")
    if not report.complete:
        accepted = report.complete_but_accepted
        clauses.append("everything unchecked is accepted" if accepted else "not everything could be checked")
    if holds := unaccepted_holds(report):
        holds_text = plural(holds, "hold", "holds")
        verb_form = "is" if holds == 1 else "are"
        clauses.append(f"{holds_text} on data that is lost or about to be deleted {verb_form} not accepted")
    return [clause for clause in clauses if clause]


def unaccepted_holds(report: Report) -> int:
    """Return how many unaccepted holds of the two highest urgencies keep the exit code above 0.

    Returns 0 if an unaccepted finding of these urgencies exists, because that finding's holds would be
    counted again.
    """
    holds = report.run.holds
    if holds is None or any(map(is_unaccepted_loss, report.run.tally)):
        return 0
    return holds["urgent"]


def _acceptance_clause(report: Report) -> str:
    """Return a clause on the accepted findings of each severity. Empty if no finding is accepted."""
    count_by_state = count_by_severity(report)
    accepted = ", ".join(
        f"{count_by_state[severity]['suppressed']:,} {severity}"
        for severity in count_by_state
        if count_by_state[severity]["suppressed"]
    )
    if not accepted:
        return ""
    if accepted == severity_words(report):
        return "all of them accepted"
    if len(accepted) > MAX_ACCEPTED_COLUMNS:
        accepted = f"{sum(count['suppressed'] for count in count_by_state.values()):,} of them"
    return f"{accepted} accepted, the rest not"


def accepted_gaps(report: Report) -> str | None:
    """Return a sentence on unchecked objects that suppressions accept. None if they accept none."""
    accepted = report.run.accepted
    if not any(accepted.values()):
        return None
    parts = [
        *([f"not read: {first_names(accepted['bookies'], _NAMES_SHOWN)}"] if accepted["bookies"] else []),
        f"{plural(accepted['ledgers'], 'ledger')} and {plural(accepted['replicas'], 'replica')} not checked",
    ]
    return f"by suppressions: {'; '.join(parts)}"


def changed_constants(report: Report) -> list[str]:
    """Return the constants of checks that differ from their default, as text with value, unit and default."""
    constants = report.run.checks["constants"] if report.run.checks is not None else []
    return [
        f"{constant['name']} {constant['value']:,} {constant['unit']} (default {constant['default']:,})"
        for constant in constants
        if constant["value"] != constant["default"]
    ]


def doubtful_ids_line(doubt: InDoubt) -> str:
    """Return how many ledger ids may exist unseen, and the part of the store that may hide most of them.

    >>> doubtful_ids_line({"ids": "10000", "reasons": ["/ledgers/00/0000: its children could not be listed"]})
    '10,000 ids: /ledgers/00/0000: its children could not be listed'
    >>> doubtful_ids_line({"ids": None, "reasons": ["/ledgers: line at byte 7: cut off", "/ledgers/L01: x"]})
    'every id: /ledgers: line at byte 7: cut off; and 1 reason more'
    """
    ids = "every id" if doubt["ids"] is None else plural(int(doubt["ids"]), "id", "ids")
    first_reason, *later_reasons = doubt["reasons"]
    remainder = f"; and {plural(len(later_reasons), 'reason', 'reasons')} more" if later_reasons else ""
    return f"{ids}: {first_reason}{remainder}"


def reuse_sentence(reuse_counts: Reuse) -> str:
    """Return a text on how much a run reused of an earlier run.

    >>> reuse_sentence({"run": "monday", "indexes": {"reused": 29_700, "read": 300},
    ...         "ledgers": {"reused": 0, "read": 10_000}, "notes": []})
    '29,700 of 30,000 indexes and 0 of 10,000 ledgers from monday'
    """
    indexes, ledgers = reuse_counts["indexes"], reuse_counts["ledgers"]
    return (
        f"{indexes['reused']:,} of {indexes['reused'] + indexes['read']:,} indexes and "
        f"{ledgers['reused']:,} of {ledgers['reused'] + ledgers['read']:,} ledgers "
        f"from {reuse_counts['run']}"
    )
