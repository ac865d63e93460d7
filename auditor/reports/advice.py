"""Advice on a finding: its importance, its confidence, its age, and commands with their risks.

The texts come from the manual page of the check. In commands, ids from the finding replace the placeholders.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, islice
from types import MappingProxyType

from auditor.actions.commands import PlaceholderValues, action_kind_of_command, fill_command, permit_command
from auditor.actions.gate import GateRun, permit
from auditor.actions.objects import bookie
from auditor.checks import CHECK_BY_ID, Check
from auditor.checks.gc_guards import TEXT_BY_DOUBT
from auditor.checks.manual import Command
from auditor.model.acceptance import DATA_LOSS, missing_digest
from auditor.model.amounts import format_time
from auditor.model.finding import ChangeStatus, Confidence, Finding, FindingWithHistory
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed, Refused
from auditor.model.states import Change
from auditor.reports.check_pages import command_lines
from auditor.reports.finding_text import class_entries_text, class_groups, positions_text
from auditor.reports.hold_text import refusal_text
from auditor.reports.plain_text import fold_text, labelled_lines

StorageByBookie = Mapping[str, str]
"""Index storage by bookie id (`auditor.tables.registry.BOOKIES`). Bookies of unknown storage are missing."""

# Doubts for which a table has a single word.
_DOUBT_TEXTS = {
    **TEXT_BY_DOUBT,
    "attribution-suspect": "a directory's cookie and its path belong to different bookies",
}
_LABEL_COLUMNS = 7
MAX_ENTRY_RUNS = 3
"""Largest number of runs (consecutive entries) of a ledger for which a command is repeated."""
_SENTENCE_BREAK = re.compile(r"(?<=\.) (?=[A-Z])")
_UNCONFIRMED_SECTIONS = ("Suspect", "Always")
HOST_PORT_PATTERN = re.compile(r"[^:]+:\d+(:.*)?")
"""Pattern of the bookie ids that the commands of `bookkeeper shell` for cookies accept."""
_UNKNOWN_STORAGE_TEXT = (
    "How to rebuild an index depends on the bookie's ledger storage. This run could not determine it."
)
_COOKIE_COMMAND = re.compile(r"bookkeeper shell cookie_")
_DECIMAL_ID = re.compile(r"-?\d+")
_LEDGER_PLACEHOLDER = re.compile(r"\bID\b")
_LAST_PLACEHOLDER = re.compile(r"\bLAST\b")


def placeholders_of(finding: Finding, instance_id: str | None = None) -> dict[str, str]:
    """Return the values for the placeholders in the commands of a finding's check.

    ``ID`` is the only ledger of the finding. ``BOOKIE`` is the finding's bookie, or the first bookie with
    missing or unknown entries. ``FIRST`` is the first entry that this bookie lacks or may lack. ``NEXT`` is
    the last such entry plus one. ``INSTANCE`` is ``instance_id``. A placeholder without a value has no key.

    >>> from auditor.model.finding import Missing, Severity
    >>> lost = Missing("bk1:3181", ((4, 10, 2, 3),), 6)
    >>> about = Severity.CRITICAL, Confidence.CONFIRMED
    >>> placeholders_of(Finding("entry-lost", *about, 0, 42, missing=(lost,)))
    {'ID': '42', 'BOOKIE': 'bk1:3181', 'FIRST': '4', 'NEXT': '12'}
    >>> one = {"ledgers": 1, "sample": ["103"]}
    >>> placeholders_of(Finding("gc-would-delete-live", *about, evidence=one))
    {'ID': '103'}
    """
    placeholders: dict[str, str] = {}
    sampled_objects: Sequence[object] = finding.evidence.get("sample") or [""]
    if finding.ledger_id is not None:
        placeholders["ID"] = str(finding.ledger_id)
    elif finding.evidence.get("ledgers") == 1 and _DECIMAL_ID.fullmatch(str(sampled_objects[0])):
        placeholders["ID"] = str(sampled_objects[0])
    bookies = [finding.bookie_id, *(part.bookie_id for part in finding.missing), *finding.unknown]
    if bookie := next((name for name in bookies if name is not None), None):
        placeholders["BOOKIE"] = bookie
    groups_of_bookie = [
        part.groups for part in finding.missing if part.bookie_id == placeholders.get("BOOKIE")
    ]
    groups_of_class = class_groups(finding) if placeholders.get("BOOKIE") in finding.unknown else ()
    if groups := groups_of_bookie[0] if groups_of_bookie else groups_of_class:
        placeholders["FIRST"] = str(min(first for first, _, _, _ in groups))
        placeholders["NEXT"] = str(max(last + size for _, last, size, _ in groups))
    if instance_id is not None:
        placeholders["INSTANCE"] = instance_id
    return placeholders


def entry_runs_of_class(finding: Finding, max_entry_runs: int) -> tuple[list[tuple[int, int]], int]:
    """Return the entries that give a ledger its class, such as lost entries, as runs. Also count all runs.

    A run is a sequence of consecutive entries, given as the pair of its first and last entry id. Only the
    first ``max_entry_runs`` runs are returned, but the number counts all of them.

    >>> from auditor.model.finding import Severity
    >>> seen = {"class_entries": {"groups": [[0, 9, 2, 3], [20, 20, 1, 0]], "count": 9}}
    >>> lost = Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42, evidence=seen)
    >>> entry_runs_of_class(lost, 2)
    ([(0, 1), (3, 4)], 5)
    """
    groups = class_groups(finding)
    run_count = sum((last - first) // (period or 1) + 1 for first, last, _, period in groups)
    entry_runs = (
        (run_start, run_start + size - 1)
        for first, last, size, period in groups
        for run_start in range(first, last + 1, period or 1)
    )
    return list(islice(entry_runs, max_entry_runs)), run_count


def advice(
    check: Check,
    placeholders: PlaceholderValues,
    width: int,
    indent: str = "",
    scope_id: int | None = 0,
    finding: Finding | None = None,
    storages: Collection[str | None] | None = None,
    run: GateRun | None = None,
) -> list[str]:
    """Return the lines of a check's "What to do" and of its commands, each with its effect and its risk.

    A check may advise to start a bookie. If a hold (a rule) of ``run`` forbids this start, the reason
    replaces "What to do". Placeholders of a command that writes are replaced only if `permit_command` permits
    the command by the holds of ``run``. If it refuses the command, the reason replaces the command. If
    ``run`` is None, a command that writes keeps its placeholders.

    Args:
        check: The check whose advice is shown.
        placeholders: Values for the placeholders in commands (`placeholders_of`).
        width: Columns of a line.
        indent: Blanks before each line.
        scope_id: Upper half of the ledger's 128-bit id. If it is not 0, commands on the ledger are left out,
            because no released shell takes such an id.
        finding: A finding about a ledger. A command for consecutive entries is repeated for at most
            `MAX_ENTRY_RUNS` runs of `entry_runs_of_class`. None: such a command keeps its placeholders.
        storages: Index storages of the bookies concerned, where None is an unknown storage. Commands for any
            other storage are left out. If ``storages`` is None, commands for all storages are shown.
        run: The run whose holds apply. None: a manual page, for which no holds apply.
    """
    start_refusal_text = _start_refusal_text(check, placeholders, run)
    advice_text = (
        check.sections["What to do"].replace("\n- ", " ")
        if start_refusal_text is None
        else start_refusal_text
    )
    lines = _labelled_lines("do", advice_text, width, indent)
    is_negative_id = placeholders.get("ID", "").startswith("-")
    is_storage_unknown = False
    refusal_texts: set[str] = set()
    for command in check.commands:
        if (scope_id or is_negative_id) and _LEDGER_PLACEHOLDER.search(command.text):
            continue
        if storages is not None and command.storage is not None and command.storage not in storages:
            is_storage_unknown |= not storages or None in storages
            continue
        gate_answer = None if run is None else permit_command(run, command.text, placeholders, scope_id or 0)
        if isinstance(gate_answer, Refused):
            if (text := refusal_text(gate_answer)) not in refusal_texts:
                refusal_texts.add(text)
                lines += _labelled_lines("", text, width, indent)
            continue
        lines += _command_lines(command, placeholders, width, indent, finding, gate_answer)
    if is_storage_unknown:
        lines += _labelled_lines("", _UNKNOWN_STORAGE_TEXT, width, indent)
    if scope_id:
        lines += _labelled_lines(
            "", f"No released shell accepts a ledger of scope {scope_id}.", width, indent
        )
    elif is_negative_id:
        lines += _labelled_lines("", "No released shell accepts a ledger id below 0.", width, indent)
    return lines


def _start_refusal_text(check: Check, placeholders: PlaceholderValues, run: GateRun | None) -> str | None:
    """Return why the bookie in ``placeholders`` must not be started, or None if nothing forbids the start."""
    name = placeholders.get("BOOKIE")
    if run is None or name is None or check.action is not ActionKind.START:
        return None
    gate_answer = permit(run, ActionKind.START, [bookie(name)])
    return refusal_text(gate_answer) if isinstance(gate_answer, Refused) else None


def _command_lines(
    command: Command,
    placeholders: PlaceholderValues,
    width: int,
    indent: str,
    finding: Finding | None,
    command_permission: Allowed | None,
) -> list[str]:
    """Return the lines of a command, with its effect and risk below."""
    if command_permission is None and action_kind_of_command(command.text) is not None:
        placeholders = {}
    lines = []
    command_indent = indent + " " * (_LABEL_COLUMNS + 4)
    first_line, *further_lines = command_lines(command, width, indent + " " * _LABEL_COLUMNS)
    needs_entry_runs = finding is not None and _LAST_PLACEHOLDER.search(command.text)
    runs, total = entry_runs_of_class(finding, MAX_ENTRY_RUNS) if finding and needs_entry_runs else ([], 0)
    for first, last in runs:
        run_values = {**placeholders, "FIRST": str(first), "LAST": str(last)}
        lines.append(
            indent + " " * _LABEL_COLUMNS + fill_command(first_line.strip(), run_values, command_permission)
        )
    if not runs:
        lines.append(
            indent + " " * _LABEL_COLUMNS + fill_command(first_line.strip(), placeholders, command_permission)
        )
    if total > len(runs):
        lines += fold_text(
            f"repeat the command for {total - len(runs):,} more ranges of entries",
            width,
            command_indent,
            command_indent,
        )
    lines += further_lines
    if _COOKIE_COMMAND.match(command.text) and not HOST_PORT_PATTERN.fullmatch(
        placeholders.get("BOOKIE", "host:1")
    ):
        lines += fold_text(
            "The shell refuses a bookie id that does not have the form host:port.",
            width,
            command_indent,
            command_indent,
        )
    return lines


def storages_of(finding: Finding, known_storages: StorageByBookie) -> set[str | None]:
    """Return the index storages of the bookies in a finding. None in the set is an unknown storage."""
    bookies_lacking_entries = (part.bookie_id for part in finding.missing)
    concerned_bookies = {
        name for name in (finding.bookie_id, *bookies_lacking_entries, *finding.unknown) if name is not None
    }
    return {known_storages.get(name) for name in concerned_bookies}


def advice_lines(
    findings: Sequence[FindingWithHistory],
    width: int,
    instance_id: str | None = None,
    storages: StorageByBookie = MappingProxyType({}),
    run: GateRun | None = None,
) -> list[str]:
    """Return findings as lines, grouped by check.

    Each finding says since when it exists. The lines on confidence, importance and advice come once for each
    check. If the findings of a check differ in confidence, each finding states its confidence instead.

    Args:
        findings: Findings in the order of the report.
        width: Columns of a line.
        instance_id: Instance id of the cluster, for commands. None: unknown.
        storages: Index storage by bookie id.
        run: The run whose holds (rules that forbid actions) decide on commands that write (`advice`).
    """
    lines: list[str] = []
    for id, findings_of_check in groupby(findings, key=lambda entry: entry.finding.id):
        group_findings = list(findings_of_check)
        check = CHECK_BY_ID.get(id)
        lines += [""] if lines else []
        lines.append(id if check is None else f"{id}: {check.title}")
        lines = [*lines[:-1], *fold_text(lines[-1], width)]
        confidence_texts = (
            [describe_confidence(check, entry.finding) for entry in group_findings]
            if check
            else [""] * len(group_findings)
        )
        is_same_confidence = len(set(confidence_texts)) == 1
        for finding_entry, confidence_text in zip(group_findings, confidence_texts, strict=True):
            lines += _finding_lines(finding_entry, "" if is_same_confidence else confidence_text, width)
        if check is not None:
            first_finding = group_findings[0].finding
            lines += _labelled_lines("sure", confidence_texts[0], width, "  ") if is_same_confidence else []
            lines += _labelled_lines("why", check.sections["Why it matters"], width, "  ")
            placeholders = placeholders_of(first_finding, instance_id)
            bookie_storages = storages_of(first_finding, storages)
            lines += advice(
                check, placeholders, width, "  ", first_finding.scope_id, first_finding, bookie_storages, run
            )
    return lines


def check_page_lines(
    check: Check,
    placeholders: PlaceholderValues,
    width: int,
    indent: str,
    count: int,
    unconfirmed_count: int,
    storage: str | None,
    ledger_finding: Finding | None,
    run: GateRun | None = None,
) -> list[str]:
    """Return lines on a check's findings about one bookie: their importance, confidence, and what to do.

    Args:
        check: The check that made the findings.
        placeholders: Values for the placeholders in commands (`placeholders_of`).
        width: Columns of a line.
        indent: Blanks before each line.
        count: Number of findings.
        unconfirmed_count: Number of findings that are not confirmed.
        storage: Index storage of the bookie. None: unknown.
        ledger_finding: The first finding about a ledger. Commands are filled in for this finding. None if
            no finding is about a ledger.
        run: The run whose holds (rules that forbid actions) apply (`advice`).
    """
    confidence_text = _check_sentences(check)[0]
    if (
        unconfirmed_count
        or not confidence_text.startswith("Confirmed")
        or len(confidence_text) > width - len(indent) - _LABEL_COLUMNS
    ):
        confirmed_text = (
            "confirmed" if not unconfirmed_count else f"{count - unconfirmed_count:,} of {count:,} confirmed"
        )
        # A NUL keeps the command in one line, to be copied.
        confidence_text = f"{confirmed_text}; bkaudit\0explain\0check\0{check.id}"
    scope_id = ledger_finding.scope_id if ledger_finding else 0
    return [
        *_labelled_lines("why", check.sections["Why it matters"], width, indent),
        *_labelled_lines("sure", confidence_text, width, indent),
        *advice(check, placeholders, width, indent, scope_id, ledger_finding, {storage}, run),
    ]


def _finding_lines(entry: FindingWithHistory, confidence_text: str, width: int) -> list[str]:
    finding = entry.finding
    lines = fold_text(f"{finding.severity}: {finding.message}", width, "  ", "    ")
    for part in filter(None, (class_entries_text(finding), positions_text(finding))):
        lines += fold_text(part, width, "    ", "      ")
    if confidence_text:
        lines += _labelled_lines("sure", confidence_text, width, "    ")
    if (since_text := first_seen_text(entry.change_status)) is not None:
        lines += _labelled_lines("since", since_text, width, "    ")
    if finding.urgency in DATA_LOSS and finding.fingerprint:
        digest = missing_digest(finding.missing)
        accept_text = f"fingerprint {finding.fingerprint}{f', missing {digest}' if digest else ''}"
        lines += _labelled_lines("accept", accept_text, width, "    ")
        lines.append(f"{'':<{4 + _LABEL_COLUMNS}}bkaudit report --accept {finding.fingerprint}")
    return lines


def describe_confidence(check: Check, finding: Finding) -> str:
    """Return the reason why a finding is confirmed, or the reasons for doubt if it is not confirmed."""
    earlier_run = finding.evidence.get("earlier_run")
    if finding.confidence == Confidence.CONFIRMED and earlier_run:
        end_time = format_time(earlier_run["finished"])
        return f"Confirmed by two runs. The first run was {earlier_run['name']}, which ended at {end_time}."
    if finding.confidence == Confidence.CONFIRMED:
        return _check_sentences(check)[0]
    return f"{finding.confidence}: {'; '.join(doubt_sentences(check, finding))}"


def doubt_sentences(check: Check, finding: Finding) -> list[str]:
    """Return the reasons why a finding is not confirmed.

    If the finding itself has no such reasons, they come from the section "How sure" of the check's manual
    page.
    """
    doubts = [_DOUBT_TEXTS.get(str(doubt), str(doubt)) for doubt in finding.evidence.get("doubts") or ()]
    if finding.evidence.get("attribution_suspect"):
        doubts.append(_DOUBT_TEXTS["attribution-suspect"])
    if doubts:
        return doubts
    sentences = _check_sentences(check)
    sentence_text = " ".join(
        [sentence for sentence in sentences if sentence.startswith(_UNCONFIRMED_SECTIONS)] or sentences
    )
    return [sentence_text[0].lower() + sentence_text[1:].removesuffix(".")]


def _check_sentences(check: Check) -> list[str]:
    return _SENTENCE_BREAK.split(" ".join(check.sections["How sure"].split()))


def first_seen_text(change_status: ChangeStatus | None) -> str | None:
    """Return a text on the first run with a finding and on its suppression. None if neither is recorded."""
    if change_status is None:
        return None
    if not change_status.change:
        return None if change_status.suppressed is None else f"suppressed: {change_status.suppressed}"
    text_by_change: dict[str, str] = {
        Change.NEW: "new in this run",
        Change.WORSE: f"{format_time(change_status.first_seen)}; worse than in the previous run",
        Change.BETTER: f"{format_time(change_status.first_seen)}; better than in the previous run",
    }
    since_text = text_by_change.get(change_status.change, format_time(change_status.first_seen))
    return (
        since_text
        if change_status.suppressed is None
        else f"{since_text}; suppressed: {change_status.suppressed}"
    )


def _labelled_lines(label: str, text: str, width: int, indent: str) -> list[str]:
    return labelled_lines(label, text, width, indent=indent, columns=_LABEL_COLUMNS)
