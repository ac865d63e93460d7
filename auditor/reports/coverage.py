"""Counts and verdict of a run for all forms of a report.

The counts say what was checked, what was found, and what was left out.
"""

from collections import Counter
from typing import Literal, NamedTuple

from auditor.model.amounts import first_names, plural
from auditor.model.finding import Confidence, Finding, Severity, Urgency
from auditor.model.report import Report, is_unaccepted_loss
from auditor.model.run_facts import InDoubt, Reuse, Tally

_MAX_NAMES_SHOWN = 5
MAX_ACCEPTED_COLUMNS = 60
"""Largest width in columns of a verdict's list of accepted findings. A longer list becomes one number."""
_COUNT_KEYS: tuple[Literal["count", "new", "worse", "suppressed"], ...] = (
    "count",
    "new",
    "worse",
    "suppressed",
)


CHECKED_LABEL = "checked"
"""Word for ledgers and replicas that were judged. For bookies the word is "read"."""


class CheckedExtent(NamedTuple):
    """How many of a cluster's ledgers, replicas or bookies were checked or read.

    ``covered_count`` is the number of objects that were checked or read. ``total`` is the number of all
    objects. ``open_count`` is the number of ledgers about which nothing can be decided yet. ``label`` is
    "checked" or "read".

    >>> print(CheckedExtent("ledgers", "checked", 1_200, 5_000))
    1,200 of 5,000 checked, 3,800 unknown
    >>> print(CheckedExtent("ledgers", "checked", 30, 33, 3))
    30 of 33 checked, 3 open
    """

    name: str
    label: str
    covered_count: int
    total: int
    open_count: int = 0

    @property
    def undecided_count(self) -> int:
        """Return how many objects should have been checked or read and were not."""
        return self.total - self.covered_count - self.open_count

    @property
    def sentence(self) -> str:
        """Return the counts with the name of the objects in place of "checked" or "read".

        >>> CheckedExtent("ledgers", "checked", 30, 35, open_count=3).sentence
        '30 of 35 ledgers, 2 unknown, 3 open'
        """
        return self._counts_text(self.name)

    def __str__(self) -> str:
        return self._counts_text(self.label)

    def _counts_text(self, object_noun: str) -> str:
        unknown_clause = (
            f", {self.undecided_count:,} unknown"
            if self.undecided_count and self.label == CHECKED_LABEL
            else ""
        )
        open_ledgers_clause = f", {self.open_count:,} open" if self.open_count else ""
        return f"{self.covered_count:,} of {self.total:,} {object_noun}{unknown_clause}{open_ledgers_clause}"


def checked_extents(report: Report) -> tuple[CheckedExtent, CheckedExtent, CheckedExtent]:
    """Return how many ledgers and replicas were checked, and how many bookies were read."""
    coverage = report.coverage
    return (
        CheckedExtent(
            "ledgers", CHECKED_LABEL, coverage.ledgers.decided, coverage.ledgers.total, coverage.ledgers.open
        ),
        CheckedExtent("replicas", CHECKED_LABEL, coverage.replicas.decided, coverage.replicas.expected),
        CheckedExtent("bookies", "read", coverage.bookies.read, coverage.bookies.expected),
    )


class CheckCount(NamedTuple):
    """Numbers of findings of one check that have the same urgency and severity.

    ``totals`` has these numbers under the keys ``count``, ``new``, ``worse``, ``suppressed`` and ``unsure``.
    ``totals["unsure"]`` counts all findings that are not confirmed. The field ``unconfirmed`` has the number
    of these findings for each confidence.
    """

    urgency: Urgency
    severity: Severity
    id: str
    totals: Counter[str]
    unconfirmed: dict[str, int]


def count_by_check(report: Report) -> list[CheckCount]:
    """Return the counts of all findings by urgency, severity and check, in the order that reports use."""
    counts: dict[tuple[Urgency, Severity, str], CheckCount] = {}
    for tally in sorted(report.run.tally, key=lambda tally: (tally_order(tally), tally["confidence"])):
        count_key = Urgency(tally["urgency"]), Severity(tally["severity"]), tally["id"]
        check_count = counts.setdefault(count_key, CheckCount(*count_key, Counter(), {}))
        check_count.totals.update({name: tally[name] for name in _COUNT_KEYS})
        if tally["confidence"] != Confidence.CONFIRMED:
            check_count.totals["unsure"] += tally["count"]
            check_count.unconfirmed[tally["confidence"]] = tally["count"]
    return list(counts.values())


def tally_order(tally: Tally) -> tuple[int, int, int, str]:
    """Return a sort key that puts counts of findings into the order that reports use.

    A tally is the number of findings with the same check, urgency, severity and confidence.
    """
    from auditor.checks import check_order  # a slow import, which `bkaudit status` does not need

    return check_order(tally["urgency"], tally["severity"], tally["id"])


def count_by_severity(report: Report) -> dict[Severity, Counter[str]]:
    """Return the numbers of findings (``count``, ``new``, ``worse``, ``suppressed``) of every severity.

    Severities without findings are included.
    """
    counts_by_severity = {severity: Counter[str]() for severity in Severity}
    for tally in report.run.tally:
        counts_by_severity[Severity(tally["severity"])].update({name: tally[name] for name in _COUNT_KEYS})
    return counts_by_severity


def severity_counts_text(report: Report, suppressed: bool = True) -> str:
    """Return the number of findings of each severity as text, the worst severity first.

    Empty if there are none. If ``suppressed`` is False, suppressed findings are not counted.
    """
    counts_by_severity = count_by_severity(report)
    counts = {
        severity: counts_by_severity[severity]["count"]
        - (0 if suppressed else counts_by_severity[severity]["suppressed"])
        for severity in counts_by_severity
    }
    return ", ".join(f"{count:,} {severity}" for severity, count in counts.items() if count)


def count_findings_of_check(report: Report, finding: Finding) -> int:
    """Return how many findings of the run have the check, urgency and severity of this finding.

    The report has only samples of findings. This number counts all.
    """
    check_key = (finding.id, finding.urgency, finding.severity)
    return sum(
        tally["count"]
        for tally in report.run.tally
        if (tally["id"], tally["urgency"], tally["severity"]) == check_key
    )


def sample_count_text(shown_count: int, total: int) -> str:
    """Return a text with the number of findings shown, and the number of all findings.

    >>> sample_count_text(2, 2), sample_count_text(5, 1_200)
    ('2', '5 of 1,200 shown')
    """
    return f"{total:,}" if total == shown_count else f"{shown_count:,} of {total:,} shown"


def verdict_word(verdict: str) -> str:
    """Return a verdict as it is spelled on screens.

    >>> verdict_word("not-healthy")
    'NOT HEALTHY'
    """
    return verdict.upper().replace("-", " ")


def verdict(report: Report) -> str:
    """Return the verdict and its reasons in one line."""
    counts = severity_counts_text(report) or "no finding"
    return f"{verdict_word(report.verdict)}: {'; '.join([counts, *verdict_clauses(report)])}"


def verdict_clauses(report: Report) -> list[str]:
    """Return the clauses that follow the counts in the line of the verdict.

    The clauses are about accepted findings, skipped checks, unchecked objects, and holds (rules that forbid
    actions) that nobody has accepted.
    """
    clauses = [_acceptance_clause(report)]
    if excluded_count := len(report.run.checks_not_run):
        clauses.append(f"{plural(excluded_count, 'check was', 'checks were')} not run")
    if not report.complete:
        is_rest_accepted = report.is_complete_or_accepted
        clauses.append(
            "all unchecked objects are accepted" if is_rest_accepted else "not everything could be checked"
        )
    if hold_count := unaccepted_holds(report):
        holds_text = plural(hold_count, "hold", "holds")
        verb_form = "is" if hold_count == 1 else "are"
        clauses.append(f"{holds_text} on data that is lost or about to be deleted {verb_form} not accepted")
    return [clause for clause in clauses if clause]


def unaccepted_holds(report: Report) -> int:
    """Return how many holds (rules that forbid actions) keep the exit code above 0.

    They are the unaccepted holds of the two highest urgencies. Returns 0 if there is an unaccepted finding
    of these urgencies. Such a finding already keeps the exit code above 0, and its holds would count the same
    problem again.
    """
    holds = report.run.holds
    if holds is None or any(map(is_unaccepted_loss, report.run.tally)):
        return 0
    return holds["urgent"]


def _acceptance_clause(report: Report) -> str:
    """Return a clause on the accepted findings of each severity. Empty if no finding is accepted."""
    counts_by_severity = count_by_severity(report)
    accepted_text = ", ".join(
        f"{counts_by_severity[severity]['suppressed']:,} {severity}"
        for severity in counts_by_severity
        if counts_by_severity[severity]["suppressed"]
    )
    if not accepted_text:
        return ""
    if accepted_text == severity_counts_text(report):
        return "all accepted"
    if len(accepted_text) > MAX_ACCEPTED_COLUMNS:
        accepted_text = f"{sum(count['suppressed'] for count in counts_by_severity.values()):,} of them"
    return f"{accepted_text} accepted; the rest are not"


def accepted_gaps(report: Report) -> str | None:
    """Return a sentence on the unchecked objects that suppressions accept, or None without such objects."""
    gaps = report.run.accepted
    if not any(gaps.values()):
        return None
    parts = [
        *([f"not read: {first_names(gaps['bookies'], _MAX_NAMES_SHOWN)}"] if gaps["bookies"] else []),
        f"{plural(gaps['ledgers'], 'ledger')} and {plural(gaps['replicas'], 'replica')} not checked",
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
    """Return a text on how many ledger ids the scan may have missed, and why.

    The text has the reason that hides the most ids, and the number of further reasons.

    >>> doubtful_ids_line({"ids": "10000", "reasons": ["/ledgers/00/0000: its children could not be listed"]})
    '10,000 ids: /ledgers/00/0000: its children could not be listed'
    >>> doubtful_ids_line({"ids": None, "reasons": ["/ledgers: line at byte 7: cut off", "/ledgers/L01: x"]})
    'every id: /ledgers: line at byte 7: cut off; and 1 reason more'
    """
    ids_text = "every id" if doubt["ids"] is None else plural(int(doubt["ids"]), "id", "ids")
    first_reason, *further_reasons = doubt["reasons"]
    further_reasons_clause = (
        f"; and {plural(len(further_reasons), 'reason', 'reasons')} more" if further_reasons else ""
    )
    return f"{ids_text}: {first_reason}{further_reasons_clause}"


def reuse_sentence(reuse: Reuse) -> str:
    """Return a text on how much of an earlier run's data a run reused.

    >>> reuse_sentence({"run": "monday", "indexes": {"reused": 29_700, "read": 300},
    ...         "ledgers": {"reused": 0, "read": 10_000}, "notes": []})
    '29,700 of 30,000 indexes and 0 of 10,000 ledgers from monday'
    """
    indexes, ledgers = reuse["indexes"], reuse["ledgers"]
    return (
        f"{indexes['reused']:,} of {indexes['reused'] + indexes['read']:,} indexes and "
        f"{ledgers['reused']:,} of {ledgers['reused'] + ledgers['read']:,} ledgers "
        f"from {reuse['run']}"
    )
