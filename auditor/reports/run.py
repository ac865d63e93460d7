"""One run told to whoever has to act on it: why this verdict, what was not seen, and what to do first.

Text of at most ``width`` columns, but for commands, which stay whole to be copied.
"""

import shlex
from dataclasses import dataclass
from itertools import groupby

from auditor.checks import BY_ID, Check
from auditor.checks.needs import Sight
from auditor.model.amounts import and_more, first_names, format_time, plural
from auditor.model.finding import Confidence, Finding, Severity, Urgency
from auditor.model.report import Report, exit_code
from auditor.model.run_facts import Tally
from auditor.model.states import BookieRead, Verdict
from auditor.model.views import RunView
from auditor.reports.advice import advice, blanks_of, doubt_sentences, since_when, storages_of
from auditor.reports.blind_spots import blind_spots
from auditor.reports.coverage import (
    accepted_gaps,
    doubtful_ids_line,
    extents,
    place_of_tally,
    reuse_sentence,
    verdict,
)
from auditor.reports.finding_text import (
    cause_sentence,
    causes_of,
    class_text,
    command_for,
    follows,
    is_suppressed,
    positions_text,
)
from auditor.reports.plain_text import fold_text, labelled, printable

TOLD_IN_FULL = 8
"""Checks that are told with their commands; of the others it is said what to do in short."""

UNREAD = "bookie-unread"
DOUBTS_SHOWN = 3
IDS_SHOWN = 7


def render(run: RunView, width: int) -> str:
    """Verdict and why, what was looked at and what not, doubts, and what to do in order."""
    parts = [
        _verdict(run, width),
        _sources_read(run, width),
        _not_looked_at(run, width),
        _blind(run, width),
        _doubts(run.report, width),
        _causes(run.report, width),
        _to_do(run, width),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _verdict(run: RunView, width: int) -> list[str]:
    report, facts = run.report, run.report.run
    seconds = max(0, facts.finished - facts.started) / 1000
    lines = labelled("run", f"{run.path}, ended {format_time(facts.finished)}, took {seconds:,.0f} s", width)
    lines += labelled("verdict", verdict(report), width)
    lines += labelled("why", _why(report), width)
    if run.fail_on is not None:
        code = exit_code(report, run.fail_on, run.fail_on_suspect)
        flags = f"--fail-on {run.fail_on}{' --fail-on-suspect' if run.fail_on_suspect else ''}"
        lines += labelled("exit code", f"{code}, with {flags}: {_CODES[code]}", width)
    return lines


_CODES = {
    0: "nothing at or above that was found, and all of it was decided, or is accepted",
    1: "something at or above that was found; suppressed findings do not count",
    3: "nothing at or above that was confirmed, but something is only suspected, or was not looked at",
    5: "so many ledger records cannot be decoded that nothing else counts",
}


def _why(report: Report) -> str:
    if report.verdict == Verdict.NOT_HEALTHY:
        sure = sum(
            tally["count"]
            for tally in report.run.tally
            if tally["confidence"] == Confidence.CONFIRMED
            and Severity(tally["severity"]).at_least(Severity.WARNING)
        )
        return (
            f"something of warning or worse was found, {sure:,} of it confirmed; suspected and suppressed "
            "findings count for the verdict too"
        )
    if report.verdict == Verdict.HEALTHY:
        return "all of it was looked at and decided, and nothing worse than a note was found"
    return "nothing worse than a note was found, but what was not looked at could hold anything"


def _sources_read(run: RunView, width: int) -> list[str]:
    report, facts = run.report, run.report.run
    ledgers, replicas, bookies = extents(report)
    directories = plural(run.directories, "directory", "directories")
    live = "a running store" if facts.live else "a saved store"
    lines = ["looked at"]
    store = f"{report.cluster.metadata_uri}: {live}, {report.cluster.layout}{_position(report)}"
    lines += labelled("  metadata", store, width)
    lines += labelled("  ledgers", str(ledgers), width)
    lines += labelled("  replicas", str(replicas), width)
    lines += labelled("  bookies", f"{bookies} completely, in {directories}", width)
    made = [f"{count:,} {name}" for name, count in sorted(facts.operations.items())]
    lines += labelled("  reads", ", ".join(made) or "nothing was asked of a live store", width)
    if facts.reused:
        lines += labelled("  reused", reuse_sentence(facts.reused), width)
        for note in facts.reused["notes"]:
            lines += fold_text(f"read again: {note}", width, "  ", "    ")
    return lines


def _position(report: Report) -> str:
    """Where in the store's history it was read, ZooKeeper's positions by their name."""
    where = " and ".join(dict.fromkeys(report.run.positions))
    return f", at {'zxid ' if where.startswith('0x') else ''}{where}" if where else ""


def _not_looked_at(run: RunView, width: int) -> list[str]:
    one_fact = ["  any bookie: no --bookies was given"]
    lines = one_fact if run.report.metadata_only else _unread_bookies(run, width)
    if doubt := run.report.run.in_doubt:
        lines += fold_text(f"in doubt: {doubtful_ids_line(doubt)}", width, "  ", "    ", lines=2)
    for gap in run.report.run.gaps:
        lines += fold_text(gap, width, "  ", "    ", lines=2)
    for each in run.report.run.remarks:
        lines += fold_text(f"remark: {each['text']}", width, "  ", "    ")
        for detail in each["details"]:
            lines += fold_text(detail, width, "    ", "      ")
    if (accepted := accepted_gaps(run.report)) is not None:
        lines += fold_text(f"accepted {accepted}", width, "  ", "    ")
    return ["not looked at", *lines] if lines else []


def _unread_bookies(run: RunView, width: int) -> list[str]:
    lines = []
    for each in run.unread:
        how = "read in part" if each.read == BookieRead.PARTIAL else "not read"
        why = f": {each.reason}" if each.reason else ""
        left = f"; at most {plural(each.replicas, 'replica')} undecided" if each.replicas else ""
        lines += fold_text(f"{each.bookie_id}, {how}{why}{left}", width, "  ", "    ")
    return lines + and_more(len(run.report.coverage.bookies.unread) - len(run.unread), " bookies", "  ")


def _blind(run: RunView, width: int) -> list[str]:
    lines = []
    for spot in blind_spots(Sight.of(run.report)):
        ids = first_names(spot.ids, IDS_SHOWN)
        lines += fold_text(f"{spot.sentence}; it concerns {ids}", width, "  ", "    ")
    return ["could not be seen", *lines] if lines else []


def _doubts(report: Report, width: int) -> list[str]:
    """Which findings are not confirmed, and what the doubts of those that the report shows come from."""
    lines = []
    for id, tallies in groupby(sorted(report.run.tally, key=place_of_tally), key=lambda each: each["id"]):
        unsure = {t["confidence"]: t["count"] for t in tallies if t["confidence"] != Confidence.CONFIRMED}
        check = BY_ID.get(id)
        if not unsure or check is None:
            continue
        shown = [
            each for each in report.findings if each.id == id and each.confidence != Confidence.CONFIRMED
        ]
        doubts = list(dict.fromkeys(doubt for each in shown for doubt in doubt_sentences(check, each)))
        more = f" (and {len(doubts) - DOUBTS_SHOWN:,} other doubts)" if len(doubts) > DOUBTS_SHOWN else ""
        count = ", ".join(f"{number:,} {confidence}" for confidence, number in unsure.items())
        lines += fold_text(f"{id}, {count}: {'; '.join(doubts[:DOUBTS_SHOWN])}{more}", width, "  ", "    ")
    return ["in doubt", *lines] if lines else []


def _causes(report: Report, width: int) -> list[str]:
    """What one thing explains, and what follows from it."""
    lines = []
    for cause in causes_of(report):
        lines += fold_text(cause_sentence(cause), width, "  ", "    ")
        lines += fold_text(f"so: {follows(cause)}", width, "    ", "      ")
    return ["causes", *lines] if lines else []


def _to_do(run: RunView, width: int) -> list[str]:
    """Numbered steps: first what destroys data, then the worst; all in short at the end, where eyes are."""
    steps = steps_of(run.report)
    pressing = [step for step in steps if step.pressing]
    lines = []
    for number, step in enumerate(pressing[:TOLD_IN_FULL], 1):
        lines += [*_step(number, step, run, width), ""]
    known = [f"{step.check.id} {step.suppressed:,}" for step in steps if step.suppressed]
    idle = [f"{step.check.id} {step.open:,}" for step in steps if step.open and not step.pressing]
    if pressing:
        lines += ["in short"]
        for number, step in enumerate(pressing, 1):
            what = step.action or _first_sentence(step.check)
            lines += fold_text(f"{number}. {step.check.id} ({step.open:,}): {what}", width, "  ", "     ")
    if idle:
        lines += fold_text(f"worth knowing, nothing presses: {', '.join(idle)}", width, "  ", "  ")
    if known:
        lines += fold_text(f"suppressed: {', '.join(known)}", width, "  ", "  ")
    return ["what to do, in this order", *lines] if lines else ["nothing has to be done"]


def _first_sentence(check: Check) -> str:
    text = " ".join(check.sections["What to do"].split())
    return f"{text.partition('. ')[0].removesuffix('.')}."


@dataclass(frozen=True, slots=True)
class CheckStep:
    """The findings of one check and urgency: their worst severity, how many are open, and suppressed; what to
    do about the open ones, None where nothing presses or an older version made the run."""

    check: Check
    urgency: Urgency
    severity: Severity
    open: int
    suppressed: int
    action: str | None

    @property
    def pressing(self) -> bool:
        """Whether someone should act: what was not seen may be worse than any warning that was."""
        return bool(self.open) and (self.severity.at_least(Severity.WARNING) or self.check.id == UNREAD)


def steps_of(report: Report) -> list[CheckStep]:
    """What was found by check, in the order in which to act on it."""
    actions = {(step["urgency"], step["id"]): step["action"] for step in report.run.steps or ()}
    found: dict[tuple[str, str], list[Tally]] = {}
    for tally in sorted(report.run.tally, key=place_of_tally):
        if tally["id"] in BY_ID:
            found.setdefault((tally["urgency"], BY_ID[tally["id"]].id), []).append(tally)
    return [
        CheckStep(
            BY_ID[id],
            Urgency(urgency),
            Severity(tallies[0]["severity"]),
            sum(each["count"] - each["suppressed"] for each in tallies),
            sum(each["suppressed"] for each in tallies),
            actions.get((urgency, id)),
        )
        for (urgency, id), tallies in found.items()
    ]


def _step(number: int, step: CheckStep, run: RunView, width: int) -> list[str]:
    check = step.check
    head = f"{number}. {check.id} ({step.severity}; {step.open:,}): {check.title}"
    lines = fold_text(head, width, "  ", "     ")
    alike = (each for each in run.report.findings if (each.urgency, each.id) == (step.urgency, check.id))
    open_first = sorted(alike, key=lambda each: is_suppressed(run.standings.get(each.fingerprint)))
    first = next(iter(open_first), None)
    if first is None:
        return lines + advice(check, {}, width, "     ")
    lines += _first(first, run, width)
    blanks = blanks_of(first, run.report.cluster.instance_id)
    kinds = storages_of(first, run.storages)
    return lines + advice(check, blanks, width, "     ", first.scope_id, first, kinds)


def _first(finding: Finding, run: RunView, width: int) -> list[str]:
    """The first finding of a step, and where more of it is told."""
    since = since_when(run.standings.get(finding.fingerprint))
    said = f"as: {finding.message}{f' (since: {since})' if since else ''}"
    command = command_for(finding, run.path)
    entries = [
        line
        for part in (class_text(finding), positions_text(finding))
        if part
        for line in fold_text(part, width, "         ", "           ")
    ]
    more = command or f"bkaudit explain check {shlex.quote(printable(finding.id))}"
    return [*fold_text(said, width, "     ", "         "), *entries, f"     more: {more}"]
