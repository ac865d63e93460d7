"""First screen of a report: the cluster, its coverage, the findings, the changes and the verdict.

The screen fits into a terminal of 24 lines, and leaves a line for the command and one for the prompt. It
always shows the verdict, the first action, and one line for each urgency and severity of findings. The other
parts get the remaining lines, in the order of `_Rank`. A part that does not fit shows a count instead of
names. Findings, verdict and actions come last, so that a smaller window hides only facts about the cluster.
`bkaudit explain run` shows everything.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain, groupby, repeat
from math import ceil

from auditor.checks import ALL_CHECKS
from auditor.model.amounts import first_names, format_time, plural, size
from auditor.model.finding import SEVERITY_LABELS, URGENCY_LABELS, Severity, Urgency
from auditor.model.report import Report
from auditor.model.run_facts import RemarkKind, sentence_of
from auditor.model.states import Verdict
from auditor.reports.action_text import ALL_ACTIONS_LABEL, LABEL_COLUMNS, explain_command, first_action_lines
from auditor.reports.blind_spots import checks_without_input, no_input_sentence
from auditor.reports.coverage import (
    CheckCount,
    accepted_gaps,
    changed_constants,
    checked_extents,
    count_by_check,
    doubtful_ids_line,
    reuse_sentence,
    verdict,
)
from auditor.reports.finding_text import cause_sentence, causes_of
from auditor.reports.plain_text import ELLIPSIS, columns_of, cut_middle, cut_text, fold_text, printable
from auditor.reports.repair import repair_line

WIDTH, MAX_WIDTH = 80, 100
MAX_LINES = 22
"""Largest number of lines. A terminal has 24: the command takes one line, and the prompt another."""
_LABEL_COLUMNS = 11
_COUNT_LABEL_WIDTH, _COUNT_WIDTH = 25, 5
"""Number of columns for the label of a line of findings, and for the number of findings after it."""
_NARROW_COLUMNS, _HANGING_COLUMNS = 72, 4
"""Least width of a terminal for a column of labels before findings, and the indentation in narrower ones.

In a narrower terminal the names of checks follow the number of findings directly.
"""
_MAX_NAMES = 5
_MAX_ROWS = 3
"""Largest number of causes, and of notices, on the screen."""
_MAX_REASONS = 2
_NO_BOOKIES_TEXT = "{:,}, none read: --bookies is missing; only metadata was checked"


class _Rank(IntEnum):
    """Turns in which the parts of the screen get their lines. The part with the lowest turn comes first."""

    REQUIRED_ROWS = 0
    CLUSTER = 1
    UNREAD_DATA = 2
    URGENT_ROWS = 3
    CAUSES = 4
    NOTICES = 5
    ERROR_ROWS = 6
    LONG_NOTICES = 7
    CONTEXT_FACTS = 8
    CHANGES = 9
    MINOR_ROWS = 10
    RUN_FACTS = 11
    OTHER_PARTS = 12


Form = tuple[str, ...]
"""One form of a part, longer or shorter, as rows of text."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of the screen with one label, in several forms of decreasing length.

    Attributes:
        label: Text before the first row.
        forms: The forms, the fullest first. The part is left out if the shortest one does not fit.
        rank: Turn in which the part gets its shortest form.
        fullest_rank: Turn in which the part gets the fullest form that fits.
        columns: Columns of the label.
        indent: Indentation of all lines but the first. None: as wide as the label.
    """

    label: str
    forms: Sequence[Form]
    rank: _Rank
    fullest_rank: _Rank = _Rank.OTHER_PARTS
    columns: int = _LABEL_COLUMNS
    indent: int | None = None

    def lines(self, form: Form, width: int) -> list[str]:
        """Return the lines of a form. Only the first row has the label."""
        below_indent = " " * (self.columns if self.indent is None else self.indent)
        line_starts = chain([f"{self.label:<{self.columns}}"], repeat(below_indent))
        return [
            line
            for line_start, row in zip(line_starts, form, strict=False)
            for line in fold_text(row, width, line_start, below_indent)
        ]


def render(report: Report, run: str = "RUN", width: int = WIDTH) -> str:
    """Return the first screen.

    The screen has at most `MAX_LINES` lines, unless the parts that are always shown need more.

    Args:
        report: The report of a run.
        run: Name of the run in commands.
        width: Columns of a line. If it is above `MAX_WIDTH`, the output is not a terminal. The screen then
            has the content of a terminal with `WIDTH` columns, in unfolded lines.
    """
    columns = width if width <= MAX_WIDTH else WIDTH
    actions = first_action_lines(report, run, width)
    last_lines = [*fold_text(verdict(report), width), *actions, *_next_commands(report, run)]
    head = [*_coverage_parts(report, columns), *_notice_parts(report, columns)]
    body = [*_count_parts(report, columns), *_cause_parts(report, columns), *_history_parts(report, columns)]
    # A terminal itself folds the long commands. Two lines are blank.
    lines_left = MAX_LINES - 2 - sum(max(1, ceil(columns_of(line) / columns)) for line in last_lines)
    forms = _choose_forms([*head, *body], lines_left, columns)
    part_lines = [
        part.lines(form, width) if form is not None else []
        for part, form in zip([*head, *body], forms, strict=True)
    ]
    above_lines, below_lines = chain(*part_lines[: len(head)]), chain(*part_lines[len(head) :])
    no_finding_lines = [] if report.run.tally else ["nothing found"]
    return "\n".join([*above_lines, "", *no_finding_lines, *below_lines, "", *last_lines]).removeprefix("\n")


def _choose_forms(parts: Sequence[_Part], lines_left: int, columns: int) -> list[Form | None]:
    """Return a form for each part, as full as ``lines_left`` lines allow. None leaves the part out."""
    line_counts = [[len(part.lines(form, columns)) for form in part.forms] for part in parts]
    line_ranks = [(part.rank, number, False) for number, part in enumerate(parts)]
    line_ranks += [(part.fullest_rank, number, True) for number, part in enumerate(parts)]
    choices: list[int | None] = [None] * len(parts)
    for line_rank, number, is_full_form in sorted(line_ranks):
        form_lines, form_choice = line_counts[number], choices[number]
        used_lines = 0 if form_choice is None else form_lines[form_choice]
        max_part_lines = used_lines + lines_left if is_full_form else form_lines[-1]
        if (is_full_form and form_choice is None) or (
            max_part_lines - used_lines > lines_left and line_rank != _Rank.REQUIRED_ROWS
        ):
            continue
        form_number = next(
            (form for form, count in enumerate(form_lines) if count <= max_part_lines), len(form_lines) - 1
        )
        choices[number] = form_number
        lines_left -= form_lines[form_number] - used_lines
    return [None if form is None else part.forms[form] for part, form in zip(parts, choices, strict=True)]


def _name_forms(title: str, separator: str, names: Sequence[str]) -> list[Form]:
    """Return forms with ever fewer of ``names``, and the number left out. The last is only ``title``."""
    unbroken_names = [name.replace(" ", "\0") for name in names]
    max_names = min(len(names), _MAX_NAMES)
    return [
        *((f"{title}{separator}{first_names(unbroken_names, count)}",) for count in range(max_names, 0, -1)),
        (title,),
    ]


def _shorten_text(text: str, columns: int) -> str:
    """Return the first clauses of a text, as many as fit into one line beside the label.

    >>> _shorten_text("3 journals are incomplete, so that some is suspect: bk-a, bk-b and 1 more", 40)
    '3 journals are incomplete'
    >>> _shorten_text("20 ledgers (rack /r1, /r2)", 26)
    '20 ledgers'
    """
    width = columns - _LABEL_COLUMNS
    if columns_of(text) <= width:
        return text
    # A clause may end before a bracket, but not inside the brackets.
    masked_text = re.sub(r"\(.*?\)", lambda match: "(" + "x" * (len(match[0]) - 1), text)
    clause_ends = [end.start() for end in re.finditer(r"[:;,] | \(| and (?=has )|$", masked_text)]
    fitting_texts = [text[:end] for end in clause_ends if columns_of(text[:end]) <= width]
    return fitting_texts[-1] if fitting_texts else cut_text(text, width - len(ELLIPSIS)).rstrip() + ELLIPSIS


def _text_forms(texts: Sequence[str], columns: int | None = None) -> list[Form]:
    """Return forms that show ever fewer of ``texts``, and the number of texts that each form leaves out.

    If ``columns`` is given, each text is shortened to one line of that width. None: texts are not shortened.
    """
    forms = []
    for count in range(min(len(texts), _MAX_ROWS), 0, -1):
        more_clause = f" ({len(texts) - count:,} more)" if len(texts) > count else ""
        rows = list(texts[:count])
        if columns is not None:
            rows = [
                *(_shorten_text(row, columns) for row in rows[:-1]),
                _shorten_text(rows[-1], columns - len(more_clause)),
            ]
        forms.append((*rows[:-1], rows[-1] + more_clause))
    return forms


def _row_forms(text: str, columns: int) -> list[Form]:
    """Return two forms of a text: in full, and shortened to one line."""
    return [(text,), (_shorten_text(text, columns),)]


def _coverage_parts(report: Report, columns: int) -> Iterator[_Part]:
    """Yield the parts on the cluster, on what was checked, and on what was not checked."""
    run, cluster = report.run, report.cluster
    ledgers, replicas, bookies = checked_extents(report)
    scan_time = format_time(run.scan_time)
    name = cut_middle(cluster.instance_id or "no instance id", columns - _LABEL_COLUMNS - len(scan_time) - 2)
    yield _Part("cluster", [(f"{name}, {scan_time}",)], _Rank.CLUSTER)
    store_text = f"{cluster.metadata_uri}, layout {cluster.layout}"
    yield _Part("metadata", _row_forms(store_text, columns), _Rank.RUN_FACTS)
    checked_forms: list[Form] = [(ledgers.sentence,)]
    if not report.is_metadata_only:
        checked_forms.insert(
            0, (f"{ledgers.sentence}; {replicas.covered_count:,} of {replicas.total:,} ledger copies",)
        )
    yield _Part("checked", checked_forms, _Rank.CLUSTER)
    bookie_forms = _name_forms(str(bookies), "; not read: ", report.coverage.bookies.unread)
    if report.is_metadata_only:
        bookie_forms = _row_forms(_NO_BOOKIES_TEXT.format(bookies.total), columns)
    yield _Part("bookies", bookie_forms, _Rank.CLUSTER, _Rank.CONTEXT_FACTS)
    if run.repair is not None and (repair_text := repair_line(run.repair, run.scan_time)) is not None:
        yield _Part("repair", _row_forms(repair_text, columns), _Rank.UNREAD_DATA, _Rank.CONTEXT_FACTS)
    if (skipped_text := no_input_sentence(report)) is not None:
        names = [id for id in checks_without_input(report) if id not in run.checks_not_run]
        yield _Part("skipped", _name_forms(skipped_text, ": ", names), _Rank.CONTEXT_FACTS)
    if unrun_ids := run.checks_not_run:
        count_text = f"{len(unrun_ids):,} of {len(ALL_CHECKS):,} checks"
        yield _Part("not run", _name_forms(count_text, ": ", unrun_ids), _Rank.CLUSTER, _Rank.CONTEXT_FACTS)
    if constants := changed_constants(report):
        yield _Part("constants", _row_forms("; ".join(constants), columns), _Rank.CONTEXT_FACTS)
    if (accepted_text := accepted_gaps(report)) is not None:
        yield _Part("accepted", _row_forms(accepted_text, columns), _Rank.CONTEXT_FACTS)
    if run.resumed is not None:
        since_text = f"reuses an interrupted run; oldest table: {format_time(run.resumed)}"
        yield _Part("resumed", [(since_text,)], _Rank.CONTEXT_FACTS)
    if run.reused:
        yield _Part("reused", _row_forms(reuse_sentence(run.reused), columns), _Rank.RUN_FACTS)
    if run.in_doubt:
        # The beginning of a reason alone may say the opposite of the whole reason.
        doubt_forms = _row_forms(doubtful_ids_line(run.in_doubt), columns)
        yield _Part("unknown", doubt_forms, _Rank.UNREAD_DATA, _Rank.UNREAD_DATA)
    if run.gaps:
        gaps_text = f"{plural(len(run.gaps), 'path', 'paths')}, such as {run.gaps[0]}"
        yield _Part("not read", _row_forms(gaps_text, columns), _Rank.UNREAD_DATA)


def _notice_parts(report: Report, columns: int) -> Iterator[_Part]:
    """Yield the parts on data that is one failure from loss, and on notices that ask for an action."""
    notice_texts, has_label = [], False
    for notice in sorted(
        report.run.remarks, key=lambda fact: list(RemarkKind).index(RemarkKind(fact["kind"]))
    ):
        kind = RemarkKind(notice["kind"])
        if kind in (RemarkKind.NEAR_LOSS, RemarkKind.ONE_REACHABLE_COPY):
            label = "" if has_label else "exposure"
            has_label = True
            yield _Part(label, _row_forms(sentence_of(notice), columns), _Rank.NOTICES, _Rank.LONG_NOTICES)
        elif kind.asks_for_action and kind is not RemarkKind.NOT_COMPARED:
            notice_texts.append(notice["text"])
    if notice_texts:
        yield _Part("notice", _text_forms(notice_texts, columns), _Rank.NOTICES, _Rank.CONTEXT_FACTS)


def _count_parts(report: Report, columns: int) -> list[_Part]:
    """Return one part for each urgency, and one for each severity of findings without an urgency.

    A part has the number of findings, the count of each check, and the ledgers concerned.
    """
    parts = []
    urgent_severities: set[Severity] = set()
    for label, group in groupby(count_by_check(report), key=_check_label):
        check_counts = list(group)
        if check_counts[0].urgency in URGENCY_LABELS:
            urgent_severities |= {check_count.severity for check_count in check_counts}
        elif check_counts[0].severity in urgent_severities:
            label = f"other {label}"
        is_urgent = check_counts[0].urgency != Urgency.NOT_URGENT or check_counts[0].severity.at_least(
            Severity.CRITICAL
        )
        is_error = check_counts[0].severity.at_least(Severity.ERROR)
        fullest_rank = _Rank.URGENT_ROWS if is_urgent else _Rank.ERROR_ROWS if is_error else _Rank.MINOR_ROWS
        count_text = f"{sum(check_count.totals['count'] for check_count in check_counts):,}"
        if columns < _NARROW_COLUMNS:
            label_text, indent = f"{label} {count_text}: ", _HANGING_COLUMNS
        else:
            label_text, indent = f"{label:<{_COUNT_LABEL_WIDTH}}{count_text:>{_COUNT_WIDTH}}   ", None
        forms = _count_forms(report, check_counts)
        parts.append(_Part(label_text, forms, _Rank.REQUIRED_ROWS, fullest_rank, len(label_text), indent))
    return parts


def _count_forms(report: Report, check_counts: list[CheckCount]) -> list[Form]:
    """Return forms of a line with ``check_counts``. Each form names fewer checks than the form before it.

    A NUL stands for a blank at which no line may break.
    """
    impact = _impact_text(report, check_counts)
    names = [_count_text(check_count).replace(" ", "\0") for check_count in check_counts]
    forms = []
    for count in range(len(check_counts), 0, -1):
        hidden_count = len(check_counts) - count
        more_clause = [plural(hidden_count, "more check").replace(" ", "\0")] if hidden_count else []
        forms.append((f"{', '.join([*names[:count], *more_clause])}{impact}",))
    return [*forms, (plural(len(check_counts), "check"),)]


def _check_label(check_count: CheckCount) -> str:
    return URGENCY_LABELS.get(check_count.urgency) or SEVERITY_LABELS[check_count.severity]


def _impact_text(report: Report, check_counts: list[CheckCount]) -> str:
    """Return a clause on the ledgers and bytes that the findings of these checks concern.

    The report has these numbers only for each severity as a whole. The text is therefore empty if other
    checks have findings of the same severity.
    """
    severities = {check_count.severity for check_count in check_counts}
    other_counts = [
        check_count
        for check_count in count_by_check(report)
        if check_count.severity in severities and check_count not in check_counts
    ]
    impacts = [
        impact for impact in report.run.impact if impact["severity"] in severities and impact["ledgers"]
    ]
    if other_counts or len(severities) > 1 or not impacts:
        return ""
    impact_text = f"on {plural(impacts[0]['ledgers'], 'ledger')} of {size(impacts[0]['bytes'])}"
    return "; " + impact_text.replace(" ", "\0")


def _count_text(check_count: CheckCount) -> str:
    """Return a check's id and number of findings, and how many are unconfirmed, new, worse or suppressed."""
    notable_counts = check_count.unconfirmed | {
        name: check_count.totals[name] for name in ("new", "worse", "suppressed")
    }
    parts = ", ".join(f"{count:,} {name}" for name, count in notable_counts.items() if count)
    return f"{check_count.id} {check_count.totals['count']:,}{f' ({parts})' if parts else ''}"


def _cause_parts(report: Report, columns: int) -> Iterator[_Part]:
    """Yield the part on causes that explain several findings. `bkaudit report` lists these findings."""
    if causes := causes_of(report):
        cause_forms = _text_forms([cause_sentence(cause) for cause in causes])
        sentence_forms = _text_forms([cause["sentence"] for cause in causes], columns)
        yield _Part("cause", [*cause_forms, sentence_forms[-1]], _Rank.CAUSES, _Rank.LONG_NOTICES)


def _history_parts(report: Report, columns: int) -> Iterator[_Part]:
    """Yield the parts on changes since the last run and on suppressions."""
    changes, rules = report.run.changes, report.run.suppressions
    reasons = [
        sentence_of(notice) for notice in report.run.remarks if notice["kind"] == RemarkKind.NOT_COMPARED
    ]
    short_reasons = [_shorten_text(reason, columns) for reason in reasons[:1]]
    if changes is not None:
        since_text = f"since {format_time(changes['finished'])}"
        counts = f"{changes['new']:,} new, {changes['worse']:,} worse, {changes['fixed']:,} fixed"
        full_text = f"{counts}, {changes['better']:,} better, {changes['same']:,} unchanged, {since_text}"
        summary = f"{counts}, {since_text}"
        if changes["unseen"]:
            full_text += f"; {changes['unseen']:,} not checked again"
            summary = f"{counts}, {changes['unseen']:,} not checked, {since_text}"
        forms = [(full_text, *reasons), (full_text, *short_reasons), (summary, *short_reasons), (summary,)]
        yield _Part("changed", forms, _Rank.REQUIRED_ROWS, _Rank.CHANGES)
    elif reasons:
        yield _Part("changed", [tuple(reasons), tuple(short_reasons)], _Rank.REQUIRED_ROWS, _Rank.CHANGES)
    else:
        yield _Part("changed", [("no earlier run to compare with",)], _Rank.RUN_FACTS)
    total = sum(rule["count"] for rule in rules)
    expired_texts = [f"{entry['reason']} ({entry['until']})" for entry in rules if entry["expired"]]
    acceptance_texts = [f"{entry['reason']} (until {entry['until']})" for entry in rules if entry["count"]]
    clauses = [f"{total:,}: {first_names(acceptance_texts, _MAX_REASONS)}"] if total else []
    clauses += [f"expired: {first_names(expired_texts, _MAX_REASONS)}"] if expired_texts else []
    if clauses:
        yield _Part("suppressed", _row_forms("; ".join(clauses), columns), _Rank.CONTEXT_FACTS)


def _next_commands(report: Report, run: str) -> list[str]:
    """Return the lines of the commands that show all actions. No line is folded, so that it can be copied."""
    if not report.findings and report.verdict != Verdict.INCOMPLETE:
        return []
    commands = [f"bkaudit explain run {shlex.quote(printable(run))}"]
    if report.first_action is None and report.run.steps:
        step = report.run.steps[0]
        commands.append(explain_command(step["id"], step, run))
    return [
        f"{ALL_ACTIONS_LABEL if not number else '':<{LABEL_COLUMNS}}{command}"
        for number, command in enumerate(commands)
    ]
