"""Page that explains one run: the reason for its verdict, what it did not check, and what to do first.

Lines have at most ``width`` columns. Only commands can be longer, because they are never folded.
"""

from dataclasses import dataclass
from itertools import groupby

from auditor.checks import CHECK_BY_ID, Check
from auditor.checks.needs import AvailableInputs
from auditor.model.action_facts import Action
from auditor.model.amounts import and_more, first_names, format_time, plural
from auditor.model.finding import Confidence, Severity
from auditor.model.report import EXIT_NOT_COVERED, Report, exit_code
from auditor.model.run_facts import Tally
from auditor.model.source_scope import SourceKind, oldest_as_of
from auditor.model.states import BookieRead, Verdict
from auditor.model.views import RunView
from auditor.reports.action_text import action_lines, forbidden_lines
from auditor.reports.advice import doubt_sentences, first_seen_text
from auditor.reports.blind_spots import make_blind_spots
from auditor.reports.coverage import (
    accepted_gaps,
    changed_constants,
    checked_extents,
    doubtful_ids_line,
    reuse_sentence,
    tally_order,
    unaccepted_holds,
    verdict,
)
from auditor.reports.finding_text import (
    cause_sentence,
    causes_of,
    class_entries_text,
    explained_findings_text,
    is_suppressed,
    positions_text,
)
from auditor.reports.plain_text import fold_text, labelled_lines
from auditor.reports.repair import repair_line

MAX_EXAMPLES_SHOWN = 8
"""Largest number of actions that get an example finding, counted from the first action."""

MAX_DOUBTS_SHOWN = 3
MAX_IDS_SHOWN = 7


def render(run: RunView, width: int) -> str:
    """Return the page: verdict and reason, coverage, unconfirmed findings, causes, and actions in order."""
    parts = [
        _verdict_lines(run, width),
        _checked_lines(run, width),
        _unread_lines(run, width),
        _skipped_check_lines(run, width),
        _constant_lines(run, width),
        _doubt_lines(run.report, width),
        _cause_lines(run.report, width),
        _action_lines(run, width),
    ]
    return "\n\n".join("\n".join(section_lines) for section_lines in parts if section_lines)


def _verdict_lines(run: RunView, width: int) -> list[str]:
    report, run_facts = run.report, run.report.run
    duration_seconds = max(0, run_facts.finished - run_facts.started) / 1000
    lines = labelled_lines(
        "run", f"{run.path}, ended {format_time(run_facts.finished)}, took {duration_seconds:,.0f} s", width
    )
    lines += labelled_lines("verdict", verdict(report), width)
    lines += labelled_lines("why", _finding_reason(report), width)
    if run.fail_on is not None:
        exit_status = exit_code(report, run.fail_on, run.fail_on_suspect)
        option_text = f"--fail-on {run.fail_on}{' --fail-on-suspect' if run.fail_on_suspect else ''}"
        lines += labelled_lines(
            "exit code", f"{exit_status}, with {option_text}: {_code_reason(exit_status, report)}", width
        )
    return lines


_CODE_REASONS = {
    0: "no findings at or above that level; everything was checked, or the gaps are accepted",
    1: "there is a finding at or above that level, or data is lost or about to be deleted. Accepted "
    "findings do not count",
    3: (
        "no confirmed findings at or above that level, but there are unconfirmed findings or unchecked "
        "objects"
    ),
    5: "too many ledger records cannot be decoded, so there is no verdict",
}


_UNACCEPTED_HOLD = (
    "no confirmed findings at or above that level. A hold on data that is lost or about to be "
    "deleted is not accepted (tables/holds)"
)


def _code_reason(exit_status: int, report: Report) -> str:
    """Return a text on why a run has the exit code ``exit_status``."""
    is_covered = report.complete or report.is_complete_or_accepted
    return (
        _UNACCEPTED_HOLD
        if exit_status == EXIT_NOT_COVERED and is_covered and unaccepted_holds(report)
        else _CODE_REASONS[exit_status]
    )


def _finding_reason(report: Report) -> str:
    if report.verdict == Verdict.NOT_HEALTHY:
        confirmed_sum = sum(
            tally["count"]
            for tally in report.run.tally
            if tally["confidence"] == Confidence.CONFIRMED
            and Severity(tally["severity"]).at_least(Severity.WARNING)
        )
        return (
            f"there are findings of severity warning or higher, {confirmed_sum:,} of them confirmed; "
            "unconfirmed "
            "and suppressed findings also count"
        )
    if report.verdict == Verdict.HEALTHY:
        return "everything was checked, and no finding is more severe than a note"
    return "no finding is more severe than a note, but not everything was checked"


def _checked_lines(run: RunView, width: int) -> list[str]:
    report, run_facts = run.report, run.report.run
    ledgers, replicas, bookies = checked_extents(report)
    directories = plural(run.directories, "directory", "directories")
    store_kind = "a running store" if run_facts.live else "a saved store"
    lines = ["checked"]
    store_text = (
        f"{report.cluster.metadata_uri}: {store_kind}, {report.cluster.layout}{_position_clause(report)}"
    )
    lines += labelled_lines("  metadata", store_text, width)
    lines += labelled_lines("  ledgers", str(ledgers), width)
    lines += labelled_lines("  copies", str(replicas), width)
    lines += labelled_lines("  bookies", f"{bookies} completely, in {directories}", width)
    if (oldest_ms := oldest_as_of(run.sources)) is not None:
        proved_count = sum(data_source.is_proved for data_source in run.sources)
        text = (
            f"{proved_count:,} of {len(run.sources):,} proved complete; the oldest data is from "
            f"{format_time(oldest_ms)}"
        )
        lines += labelled_lines("  sources", text, width)
    repair_text = None if run_facts.repair is None else repair_line(run_facts.repair, run_facts.scan_time)
    if repair_text is not None:
        lines += labelled_lines("  repair", repair_text, width)
    request_texts = [f"{count:,} {name}" for name, count in sorted(run_facts.operations.items())]
    lines += labelled_lines("  reads", ", ".join(request_texts) or "no live store was read", width)
    if run_facts.reused:
        lines += labelled_lines("  reused", reuse_sentence(run_facts.reused), width)
        for reuse_note in run_facts.reused["notes"]:
            lines += fold_text(reuse_note, width, "  ", "    ")
    return lines


def _position_clause(report: Report) -> str:
    """Return a clause with the metadata store's revision at the time of the scan. ZooKeeper calls it zxid."""
    position_text = " and ".join(dict.fromkeys(report.run.positions))
    return f", at {'zxid ' if position_text.startswith('0x') else ''}{position_text}" if position_text else ""


def _unread_lines(run: RunView, width: int) -> list[str]:
    no_bookies_lines = ["  all bookies, because --bookies is missing"]
    lines = no_bookies_lines if run.report.is_metadata_only else _unread_bookie_lines(run, width)
    if doubtful_ids := run.report.run.in_doubt:
        lines += fold_text(f"unknown: {doubtful_ids_line(doubtful_ids)}", width, "  ", "    ", max_lines=2)
    for data_source in run.sources:
        # `_unread_bookie_lines` has the bookies that were not read.
        if data_source.reason is not None and data_source.kind != SourceKind.BOOKIE:
            text = (
                f"{data_source.source}: proved complete only for {data_source.scope_proved}: "
                f"{data_source.reason}"
            )
            lines += fold_text(text, width, "  ", "    ")
    for metadata_gap in run.report.run.gaps:
        lines += fold_text(metadata_gap, width, "  ", "    ", max_lines=2)
    for notice in run.report.run.remarks:
        lines += fold_text(f"notice: {notice['text']}", width, "  ", "    ")
        for notice_detail in notice["details"]:
            lines += fold_text(notice_detail, width, "    ", "      ")
    if (accepted_text := accepted_gaps(run.report)) is not None:
        lines += fold_text(f"accepted {accepted_text}", width, "  ", "    ")
    return ["not checked", *lines] if lines else []


def _unread_bookie_lines(run: RunView, width: int) -> list[str]:
    lines = []
    for bookie in run.unread_bookies:
        reading_text = "partially read" if bookie.read == BookieRead.PARTIAL else "not read"
        reason_clause = f": {bookie.reason}" if bookie.reason else ""
        unknown_clause = f"; at most {plural(bookie.replicas, 'replica')} unknown" if bookie.replicas else ""
        lines += fold_text(
            f"{bookie.bookie_id}, {reading_text}{reason_clause}{unknown_clause}", width, "  ", "    "
        )
    return lines + and_more(
        len(run.report.coverage.bookies.unread) - len(run.unread_bookies), " bookies", "  "
    )


def _skipped_check_lines(run: RunView, width: int) -> list[str]:
    lines = []
    for blind_spot in make_blind_spots(AvailableInputs.from_report(run.report)):
        ids_text = first_names(
            blind_spot.ids, len(blind_spot.ids) if blind_spot.is_excluded else MAX_IDS_SHOWN
        )
        lines += fold_text(f"{blind_spot.sentence}; checks: {ids_text}", width, "  ", "    ")
    return ["skipped checks", *lines] if lines else []


def _constant_lines(run: RunView, width: int) -> list[str]:
    lines = []
    for text in changed_constants(run.report):
        lines += fold_text(text, width, "  ", "    ")
    return ["constants of checks", *lines] if lines else []


def _doubt_lines(report: Report, width: int) -> list[str]:
    """Return the lines on unconfirmed findings: for each check, their number and the reasons for doubt.

    The reasons come from the findings that the report contains.
    """
    lines = []
    for id, tallies in groupby(sorted(report.run.tally, key=tally_order), key=lambda tally: tally["id"]):
        unconfirmed_counts = {
            tally_of_check["confidence"]: tally_of_check["count"]
            for tally_of_check in tallies
            if tally_of_check["confidence"] != Confidence.CONFIRMED
        }
        check = CHECK_BY_ID.get(id)
        if not unconfirmed_counts or check is None:
            continue
        sample_findings = [
            finding
            for finding in report.findings
            if finding.id == id and finding.confidence != Confidence.CONFIRMED
        ]
        doubts = list(
            dict.fromkeys(doubt for finding in sample_findings for doubt in doubt_sentences(check, finding))
        )
        further_doubts_clause = (
            f" (and {len(doubts) - MAX_DOUBTS_SHOWN:,} other reasons)"
            if len(doubts) > MAX_DOUBTS_SHOWN
            else ""
        )
        counts_text = ", ".join(
            f"{unconfirmed_count:,} {confidence}"
            for confidence, unconfirmed_count in unconfirmed_counts.items()
        )
        lines += fold_text(
            f"{id}, {counts_text}: {'; '.join(doubts[:MAX_DOUBTS_SHOWN])}{further_doubts_clause}",
            width,
            "  ",
            "    ",
        )
    return ["unconfirmed", *lines] if lines else []


def _cause_lines(report: Report, width: int) -> list[str]:
    """Return the lines on causes that explain several findings, and on the findings of each cause."""
    lines = []
    for cause in causes_of(report):
        lines += fold_text(cause_sentence(cause), width, "  ", "    ")
        lines += fold_text(f"effect: {explained_findings_text(cause)}", width, "    ", "      ")
    return ["causes", *lines] if lines else []


def _action_lines(run: RunView, width: int) -> list[str]:
    """Return the lines on actions, forbidden actions, other findings, and suppressed findings."""
    report = run.report
    if report.run.actions is None:
        return ["actions", "  an earlier version of bkaudit made this run; audit again to get actions"]
    lines = []
    for number, action in enumerate(report.run.actions, 1):
        lines += action_lines(number, action, run.path, width)
        if number <= MAX_EXAMPLES_SHOWN:
            lines += _example_lines(action, run, width)
    if report.run.forbidden:
        lines += ["", "do not", *forbidden_lines(report.run.forbidden, width)]
    counts = counts_of(report)
    listed_checks = {id for action in report.run.actions for id in action["checks"]}
    listed_checks |= {
        id for forbidden_action in report.run.forbidden or () for id in forbidden_action["checks"]
    }
    other_checks = [
        f"{count.check.id} {count.open_count:,}"
        for count in counts
        if count.open_count and count.check.id not in listed_checks
    ]
    suppressed_texts = [
        f"{count.check.id} {count.suppressed_count:,}" for count in counts if count.suppressed_count
    ]
    if other_checks:
        lines += ["", *fold_text(f"also found, not urgent: {', '.join(other_checks)}", width, "  ", "  ")]
    if suppressed_texts:
        lines += fold_text(f"suppressed: {', '.join(suppressed_texts)}", width, "  ", "  ")
    return ["actions, in this order", *lines] if lines else ["no action is needed"]


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """Numbers of open and of suppressed findings with the same check and urgency.

    Open findings are those that are not suppressed.
    """

    check: Check
    open_count: int
    suppressed_count: int


def counts_of(report: Report) -> list[CheckCounts]:
    """Return the counts by check and urgency, the most urgent first."""
    tallies_by_check: dict[tuple[str, str], list[Tally]] = {}
    for tally in sorted(report.run.tally, key=tally_order):
        if tally["id"] in CHECK_BY_ID:
            tallies_by_check.setdefault((tally["urgency"], CHECK_BY_ID[tally["id"]].id), []).append(tally)
    return [
        CheckCounts(
            CHECK_BY_ID[id],
            sum(tally["count"] - tally["suppressed"] for tally in tallies),
            sum(tally["suppressed"] for tally in tallies),
        )
        for (_, id), tallies in tallies_by_check.items()
    ]


def _example_lines(action: Action, run: RunView, width: int) -> list[str]:
    """Return the lines on one finding that asks for an action, as an example.

    This is the first such finding in the report that is not suppressed. Empty if there is none.
    """
    findings = (
        finding_of_action
        for finding_of_action in run.report.findings
        if finding_of_action.id in action["checks"]
    )
    asking_findings = (
        finding_of_action
        for finding_of_action in findings
        if finding_of_action.urgency == action["urgency"]
        and not is_suppressed(run.statuses.get(finding_of_action.fingerprint))
    )
    finding = next(asking_findings, None)
    if finding is None:
        return []
    since_text = first_seen_text(run.statuses.get(finding.fingerprint))
    text = f"for example: {finding.message}{f' (since: {since_text})' if since_text else ''}"
    lines = fold_text(text, width, "     ", "       ")
    for section_lines in filter(None, (class_entries_text(finding), positions_text(finding))):
        lines += fold_text(section_lines, width, "       ", "         ")
    return lines
