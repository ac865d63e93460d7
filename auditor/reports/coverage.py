"""What a report says of the whole run: how much was seen and decided, how much found, what was left out."""

from collections import Counter
from typing import Literal, NamedTuple

from auditor.model.amounts import first_names, plural
from auditor.model.finding import Confidence, Finding, Severity, Urgency
from auditor.model.report import Report, is_unaccepted_loss
from auditor.model.run_facts import InDoubt, Reuse, Tally

_NAMES_SHOWN = 5
MAX_ACCEPTED_COLUMNS = 60
"""A verdict line lists accepted findings by severity in so many columns; longer ones are one number."""
_COUNTS: tuple[Literal["count", "new", "worse", "suppressed"], ...] = ("count", "new", "worse", "suppressed")


CHECKED = "checked"
"""What is done with ledgers and replicas; bookies are read."""


class Extent(NamedTuple):
    """How many of the cluster's ledgers, replicas or bookies were decided or read.

    ``open`` are ledgers in which nothing can be decided yet.

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
        """Those that should have been decided or read, and were not."""
        return self.total - self.covered_count - self.open

    @property
    def sentence(self) -> str:
        """The same with the name in place of the word.

        >>> Extent("ledgers", "checked", 30, 35, open=3).sentence
        '30 of 35 ledgers, 2 unknown, 3 open'
        """
        return self._words(self.name)

    def __str__(self) -> str:
        return self._words(self.word)

    def _words(self, noun: str) -> str:
        unknown = f", {self.undecided:,} unknown" if self.undecided and self.word == CHECKED else ""
        is_open = f", {self.open:,} open" if self.open else ""
        return f"{self.covered_count:,} of {self.total:,} {noun}{unknown}{is_open}"


def extents(report: Report) -> tuple[Extent, Extent, Extent]:
    """Of ledgers, replicas and bookies."""
    coverage = report.coverage
    return (
        Extent("ledgers", CHECKED, coverage.ledgers.decided, coverage.ledgers.total, coverage.ledgers.open),
        Extent("replicas", CHECKED, coverage.replicas.decided, coverage.replicas.expected),
        Extent("bookies", "read", coverage.bookies.read, coverage.bookies.expected),
    )


class CheckCount(NamedTuple):
    """The findings of a check that have one urgency and one severity.

    ``sums``: ``count``, those of them that are ``new``, ``worse``, ``suppressed`` and ``unsure``; ``unsure``
    has the last by confidence.
    """

    urgency: Urgency
    severity: Severity
    id: str
    sums: Counter[str]
    unsure: dict[str, int]


def count_by_check(report: Report) -> list[CheckCount]:
    """Complete counts by urgency, severity and check, in the order of all reports."""
    counts: dict[tuple[Urgency, Severity, str], CheckCount] = {}
    for tally in sorted(report.run.tally, key=lambda tally: (place_of_tally(tally), tally["confidence"])):
        key = Urgency(tally["urgency"]), Severity(tally["severity"]), tally["id"]
        check_count = counts.setdefault(key, CheckCount(*key, Counter(), {}))
        check_count.sums.update({name: tally[name] for name in _COUNTS})
        if tally["confidence"] != Confidence.CONFIRMED:
            check_count.sums["unsure"] += tally["count"]
            check_count.unsure[tally["confidence"]] = tally["count"]
    return list(counts.values())


def place_of_tally(tally: Tally) -> tuple[int, int, int, str]:
    """Where findings of a tally stand in every report."""
    from auditor.checks import place_of_check  # which status does without

    return place_of_check(tally["urgency"], tally["severity"], tally["id"])


def count_by_severity(report: Report) -> dict[Severity, Counter[str]]:
    """``count``, ``new``, ``worse`` and ``suppressed`` of every severity, also of one with no finding."""
    sums = {severity: Counter[str]() for severity in Severity}
    for tally in report.run.tally:
        sums[Severity(tally["severity"])].update({name: tally[name] for name in _COUNTS})
    return sums


def severity_words(report: Report, suppressed: bool = True) -> str:
    """How many findings of each severity, the worst first; empty for none.

    Suppressed findings are left out if not ``suppressed``.
    """
    sums = count_by_severity(report)
    counts = {
        severity: sums[severity]["count"] - (0 if suppressed else sums[severity]["suppressed"])
        for severity in sums
    }
    return ", ".join(f"{count:,} {severity}" for severity, count in counts.items() if count)


def count_of(report: Report, finding: Finding) -> int:
    """How many findings have check, urgency and severity of this one, beyond the report's samples."""
    key = (finding.id, finding.urgency, finding.severity)
    return sum(
        tally["count"]
        for tally in report.run.tally
        if (tally["id"], tally["urgency"], tally["severity"]) == key
    )


def sample_words(shown: int, total: int) -> str:
    """
    >>> sample_words(2, 2), sample_words(5, 1_200)
    ('2', '5 of 1,200 shown')
    """
    return f"{total:,}" if total == shown else f"{shown:,} of {total:,} shown"


def verdict_word(verdict: str) -> str:
    """Return a verdict as screens have it.

    >>> verdict_word("not-healthy")
    'NOT HEALTHY'
    """
    return verdict.upper().replace("-", " ")


def verdict(report: Report) -> str:
    """One sentence: the verdict, and what it comes from."""
    counts = severity_words(report) or "no finding"
    return f"{verdict_word(report.verdict)}: {'; '.join([counts, *verdict_clauses(report)])}"


def verdict_clauses(report: Report) -> list[str]:
    """List what a verdict says after its counts: what is accepted or undecided, and which holds count."""
    clauses = [_acceptance(report)]
    if left_out := len(report.run.not_run):
        clauses.append(f"{plural(left_out, 'check was', 'checks were')} not run")
    if not report.complete:
        accepted = report.complete_but_accepted
        clauses.append(
            "what could not be checked is accepted" if accepted else "not everything could be checked"
        )
    if holds := unaccepted_holds(report):
        of_holds = plural(holds, "hold", "holds")
        verb = "is" if holds == 1 else "are"
        clauses.append(f"{of_holds} on data that is lost or about to be deleted {verb} not accepted")
    return [clause for clause in clauses if clause]


def unaccepted_holds(report: Report) -> int:
    """How many unaccepted holds of the two highest urgencies keep the exit code above 0.

    Returns 0 where an unaccepted finding of these urgencies says it already, as each has holds of its own.
    """
    holds = report.run.holds
    if holds is None or any(map(is_unaccepted_loss, report.run.tally)):
        return 0
    return holds["urgent"]


def _acceptance(report: Report) -> str:
    """How many findings of each severity are accepted; empty if none is."""
    sums = count_by_severity(report)
    accepted = ", ".join(
        f"{sums[severity]['suppressed']:,} {severity}" for severity in sums if sums[severity]["suppressed"]
    )
    if not accepted:
        return ""
    if accepted == severity_words(report):
        return "all of them accepted"
    if len(accepted) > MAX_ACCEPTED_COLUMNS:
        accepted = f"{sum(count['suppressed'] for count in sums.values()):,} of them"
    return f"{accepted} accepted, the rest not"


def accepted_gaps(report: Report) -> str | None:
    """What suppressions accept of what is not decided, in a sentence; None where they accept nothing."""
    accepted = report.run.accepted
    if not any(accepted.values()):
        return None
    parts = [
        *([f"not read: {first_names(accepted['bookies'], _NAMES_SHOWN)}"] if accepted["bookies"] else []),
        f"{plural(accepted['ledgers'], 'ledger')} and {plural(accepted['replicas'], 'replica')} not checked",
    ]
    return f"as known, by suppressions: {'; '.join(parts)}"


def changed_constants(report: Report) -> list[str]:
    """The constants of checks that are not the default, each with its value, unit and default."""
    constants = report.run.checks["constants"] if report.run.checks is not None else []
    return [
        f"{constant['name']} {constant['value']:,} {constant['unit']} (default {constant['default']:,})"
        for constant in constants
        if constant["value"] != constant["default"]
    ]


def doubtful_ids_line(doubt: InDoubt) -> str:
    """How many ids may be there unseen, and the part of the store that leaves most of them open.

    >>> doubtful_ids_line({"ids": "10000", "reasons": ["/ledgers/00/0000: its children could not be listed"]})
    '10,000 ids: /ledgers/00/0000: its children could not be listed'
    >>> doubtful_ids_line({"ids": None, "reasons": ["/ledgers: line at byte 7: cut off", "/ledgers/L01: x"]})
    'every id: /ledgers: line at byte 7: cut off; and 1 reason more'
    """
    ids = "every id" if doubt["ids"] is None else plural(int(doubt["ids"]), "id", "ids")
    first, *later_reasons = doubt["reasons"]
    remainder = f"; and {plural(len(later_reasons), 'reason', 'reasons')} more" if later_reasons else ""
    return f"{ids}: {first}{remainder}"


def reuse_sentence(reuse: Reuse) -> str:
    """
    >>> reuse_sentence({"run": "monday", "indexes": {"reused": 29_700, "read": 300},
    ...         "ledgers": {"reused": 0, "read": 10_000}, "notes": []})
    '29,700 of 30,000 indexes and 0 of 10,000 ledgers as in monday'
    """
    indexes, ledgers = reuse["indexes"], reuse["ledgers"]
    return (
        f"{indexes['reused']:,} of {indexes['reused'] + indexes['read']:,} indexes and "
        f"{ledgers['reused']:,} of {ledgers['reused'] + ledgers['read']:,} ledgers as in {reuse['run']}"
    )
