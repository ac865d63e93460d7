"""Advice on a finding: its importance, its confidence, its age, and commands with their risks.

The words come from the manual page of the check. Known ids replace the placeholders in commands.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, islice
from types import MappingProxyType

from auditor.actions.commands import Blanks, fill_command, kind_of_command, permit_command
from auditor.actions.gate import HeldRun, permit
from auditor.actions.objects import bookie
from auditor.checks import BY_ID, Check
from auditor.checks.gc_guards import DOUBT_TEXTS
from auditor.checks.manual import Command
from auditor.model.acceptance import DATA_LOSS, missing_digest
from auditor.model.amounts import format_time
from auditor.model.finding import ChangeStatus, Confidence, Finding, FindingWithHistory
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed, Refused
from auditor.model.states import Change
from auditor.reports.check_pages import command_lines
from auditor.reports.finding_text import class_groups, class_text, positions_text
from auditor.reports.hold_text import refusal_text
from auditor.reports.plain_text import fold_text, labelled

Storages = Mapping[str, str]
"""Index storage by bookie id (`auditor.tables.registry.BOOKIES`). Bookies of unknown storage are missing."""

# Doubts that a table keeps as a word.
_DOUBT_TEXTS = {
    **DOUBT_TEXTS,
    "attribution-suspect": "the cookie and the path of a directory belong to different bookies",
}
_LABEL_COLUMNS = 7
RUNS_SHOWN = 3
"""Largest number of times that a command is repeated: once for each run (consecutive entries) of a ledger."""
_SENTENCE_GAP = re.compile(r"(?<=\.) (?=[A-Z])")
_UNCONFIRMED_SECTIONS = ("Suspect", "Always")
HOST_PORT = re.compile(r"[^:]+:\d+(:.*)?")
"""Pattern of the bookie ids that the commands of `bookkeeper shell` for cookies accept."""
_OPEN_STORAGE = "How to rebuild an index depends on the bookie's storage, which this run did not see."
_COOKIE_COMMAND = re.compile(r"bookkeeper shell cookie_")
_DECIMAL_ID = re.compile(r"-?\d+")
_LEDGER_PLACEHOLDER = re.compile(r"\bID\b")
_LAST_PLACEHOLDER = re.compile(r"\bLAST\b")


def blanks_of(finding: Finding, instance_id: str | None = None) -> dict[str, str]:
    """Return the values for the placeholders in the commands of a finding's check.

    ``ID`` is the only ledger of the finding. ``BOOKIE`` is its bookie, or the first one with missing or
    unknown entries. ``FIRST`` is the first entry that this bookie lacks or may lack. ``NEXT`` is the last
    such entry plus one. ``INSTANCE`` is ``instance_id``. A placeholder without a value has no key.

    >>> from auditor.model.finding import Missing, Severity
    >>> lost = Missing("bk1:3181", ((4, 10, 2, 3),), 6)
    >>> blanks_of(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42, missing=(lost,)))
    {'ID': '42', 'BOOKIE': 'bk1:3181', 'FIRST': '4', 'NEXT': '12'}
    >>> one = {"ledgers": 1, "sample": ["103"]}
    >>> blanks_of(Finding("gc-would-delete-live", Severity.CRITICAL, Confidence.CONFIRMED, evidence=one))
    {'ID': '103'}
    """
    blanks: dict[str, str] = {}
    sample_objects: Sequence[object] = finding.evidence.get("sample") or [""]
    if finding.ledger_id is not None:
        blanks["ID"] = str(finding.ledger_id)
    elif finding.evidence.get("ledgers") == 1 and _DECIMAL_ID.fullmatch(str(sample_objects[0])):
        blanks["ID"] = str(sample_objects[0])
    bookies = [finding.bookie_id, *(part.bookie_id for part in finding.missing), *finding.unknown]
    if bookie := next((name for name in bookies if name is not None), None):
        blanks["BOOKIE"] = bookie
    groups_of_bookie = [part.groups for part in finding.missing if part.bookie_id == blanks.get("BOOKIE")]
    groups_of_class = class_groups(finding) if blanks.get("BOOKIE") in finding.unknown else ()
    if groups := groups_of_bookie[0] if groups_of_bookie else groups_of_class:
        blanks["FIRST"] = str(min(first for first, _, _, _ in groups))
        blanks["NEXT"] = str(max(last + size for _, last, size, _ in groups))
    if instance_id is not None:
        blanks["INSTANCE"] = instance_id
    return blanks


def class_runs(finding: Finding, max_runs: int) -> tuple[list[tuple[int, int]], int]:
    """Return ``max_runs`` runs of the entries that give a ledger its class, and the number of all runs.

    A run is consecutive entries, as a pair of the first and the last entry id.

    >>> from auditor.model.finding import Severity
    >>> seen = {"class_entries": {"groups": [[0, 9, 2, 3], [20, 20, 1, 0]], "count": 9}}
    >>> class_runs(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42, evidence=seen), 2)
    ([(0, 1), (3, 4)], 5)
    """
    groups = class_groups(finding)
    total = sum((last - first) // (period or 1) + 1 for first, last, _, period in groups)
    runs = (
        (start, start + size - 1)
        for first, last, size, period in groups
        for start in range(first, last + 1, period or 1)
    )
    return list(islice(runs, max_runs)), total


def advice(
    check: Check,
    blanks: Blanks,
    width: int,
    indent: str = "",
    scope_id: int | None = 0,
    finding: Finding | None = None,
    storages: Collection[str | None] | None = None,
    run: HeldRun | None = None,
) -> list[str]:
    """Return the lines of a check's "What to do" and of its commands, each with its effect and its risk.

    A check may advise to start a bookie. If a hold of ``run`` forbids this start, the reason replaces "What
    to do". A command that writes is filled in only if the gate (`permit_command`) permits it by the holds of
    ``run``. If the gate refuses the command, the reason replaces it. Without a run, a command that writes
    keeps its placeholders.

    Args:
        check: The check whose advice is shown.
        blanks: Values for the placeholders in commands (`blanks_of`).
        width: Columns of a line.
        indent: Blanks before each line.
        scope_id: Scope of the ledger. For a scope other than 0, commands on the ledger are left out, because
            no released shell takes a scope.
        finding: A finding about a ledger. Commands for consecutive entries are repeated for each run of
            entries in its class, at most `RUNS_SHOWN` times. None: such commands keep their placeholders.
        storages: Index storages of the bookies concerned, where None is an unknown storage. Commands for any
            other storage are left out. If ``storages`` is None, commands for all storages are shown.
        run: The run whose holds apply. None: a manual page, for which no holds apply.
    """
    start_refusal_text = _forbidden_start(check, blanks, run)
    unquoted_text = (
        check.sections["What to do"].replace("\n- ", " ")
        if start_refusal_text is None
        else start_refusal_text
    )
    lines = _labelled_lines("do", unquoted_text, width, indent)
    is_negative_id = blanks.get("ID", "").startswith("-")
    is_storage_unknown = False
    refusals: set[str] = set()
    for command in check.commands:
        if (scope_id or is_negative_id) and _LEDGER_PLACEHOLDER.search(command.text):
            continue
        if storages is not None and command.storage is not None and command.storage not in storages:
            is_storage_unknown |= not storages or None in storages
            continue
        answer = None if run is None else permit_command(run, command.text, blanks, scope_id or 0)
        if isinstance(answer, Refused):
            if (text := refusal_text(answer)) not in refusals:
                refusals.add(text)
                lines += _labelled_lines("", text, width, indent)
            continue
        lines += _command_lines(command, blanks, width, indent, finding, answer)
    if is_storage_unknown:
        lines += _labelled_lines("", _OPEN_STORAGE, width, indent)
    if scope_id:
        lines += _labelled_lines(
            "", f"No released shell accepts a ledger of scope {scope_id}.", width, indent
        )
    elif is_negative_id:
        lines += _labelled_lines("", "No released shell accepts a ledger id below 0.", width, indent)
    return lines


def _forbidden_start(check: Check, blanks: Blanks, run: HeldRun | None) -> str | None:
    """Return the reason why the bookie in ``blanks`` must not be started.

    None if the start is permitted, or if the check does not ask for a start.
    """
    name = blanks.get("BOOKIE")
    if run is None or name is None or check.action is not ActionKind.START:
        return None
    answer = permit(run, ActionKind.START, [bookie(name)])
    return refusal_text(answer) if isinstance(answer, Refused) else None


def _command_lines(
    command: Command,
    blanks: Blanks,
    width: int,
    indent: str,
    finding: Finding | None,
    permission: Allowed | None,
) -> list[str]:
    """Return the lines of a command, with its effect and risk below.

    A command on a range of entries is repeated for each run of the entries that give the ledger its class.
    """
    if permission is None and kind_of_command(command.text) is not None:
        blanks = {}
    lines = []
    command_indent = indent + " " * (_LABEL_COLUMNS + 4)
    first_line, *further_lines = command_lines(command, width, indent + " " * _LABEL_COLUMNS)
    needs_entry_runs = finding is not None and _LAST_PLACEHOLDER.search(command.text)
    runs, total = class_runs(finding, RUNS_SHOWN) if finding and needs_entry_runs else ([], 0)
    for first, last in runs:
        run_blanks = {**blanks, "FIRST": str(first), "LAST": str(last)}
        lines.append(indent + " " * _LABEL_COLUMNS + fill_command(first_line.strip(), run_blanks, permission))
    if not runs:
        lines.append(indent + " " * _LABEL_COLUMNS + fill_command(first_line.strip(), blanks, permission))
    if total > len(runs):
        lines += fold_text(
            f"and the same for {total - len(runs):,} more runs of entries",
            width,
            command_indent,
            command_indent,
        )
    lines += further_lines
    if _COOKIE_COMMAND.match(command.text) and not HOST_PORT.fullmatch(blanks.get("BOOKIE", "host:1")):
        lines += fold_text(
            "The shell refuses an id that is not a host:port.", width, command_indent, command_indent
        )
    return lines


def storages_of(finding: Finding, known_storages: Storages) -> set[str | None]:
    """Return the index storages of the bookies in a finding. None in the set is an unknown storage."""
    lacking_bookies = (part.bookie_id for part in finding.missing)
    concerned_bookies = {
        name for name in (finding.bookie_id, *lacking_bookies, *finding.unknown) if name is not None
    }
    return {known_storages.get(name) for name in concerned_bookies}


def advice_lines(
    findings: Sequence[FindingWithHistory],
    width: int,
    instance_id: str | None = None,
    storages: Storages = MappingProxyType({}),
    run: HeldRun | None = None,
) -> list[str]:
    """Return findings as lines, grouped by check.

    Each finding says since when it exists. The lines on confidence, importance and advice come once for each
    check. If the findings of a check differ in confidence, each finding states its confidence instead.

    Args:
        findings: Findings in the order of the report.
        width: Columns of a line.
        instance_id: Instance id of the cluster, for commands. None: unknown.
        storages: Index storage by bookie id.
        run: The run whose holds decide on commands that write (`advice`).
    """
    lines: list[str] = []
    for id, group in groupby(findings, key=lambda entry: entry.finding.id):
        group_findings = list(group)
        check = BY_ID.get(id)
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
            first = group_findings[0].finding
            lines += _labelled_lines("sure", confidence_texts[0], width, "  ") if is_same_confidence else []
            lines += _labelled_lines("why", check.sections["Why it matters"], width, "  ")
            blanks, kinds = blanks_of(first, instance_id), storages_of(first, storages)
            lines += advice(check, blanks, width, "  ", first.scope_id, first, kinds, run)
    return lines


def check_page_lines(
    check: Check,
    blanks: Blanks,
    width: int,
    indent: str,
    count: int,
    unconfirmed_count: int,
    storage: str | None,
    first: Finding | None,
    run: HeldRun | None = None,
) -> list[str]:
    """Return lines on a check's findings about one bookie: their importance, confidence, and what to do.

    Args:
        check: The check that made the findings.
        blanks: Values for the placeholders in commands (`blanks_of`).
        width: Columns of a line.
        indent: Blanks before each line.
        count: Number of findings.
        unconfirmed_count: Number of findings that are not confirmed.
        storage: Index storage of the bookie. None: unknown.
        first: The first finding about a ledger, for which commands are filled in. None if no finding is about
            a ledger.
        run: The run whose holds apply (`advice`).
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
    return [
        *_labelled_lines("why", check.sections["Why it matters"], width, indent),
        *_labelled_lines("sure", confidence_text, width, indent),
        *advice(check, blanks, width, indent, first.scope_id if first else 0, first, {storage}, run),
    ]


def _finding_lines(entry: FindingWithHistory, confidence_text: str, width: int) -> list[str]:
    finding = entry.finding
    lines = fold_text(f"{finding.severity}: {finding.message}", width, "  ", "    ")
    for part in filter(None, (class_text(finding), positions_text(finding))):
        lines += fold_text(part, width, "    ", "      ")
    if confidence_text:
        lines += _labelled_lines("sure", confidence_text, width, "    ")
    if (since_text := first_seen_text(entry.change_status)) is not None:
        lines += _labelled_lines("since", since_text, width, "    ")
    if finding.urgency in DATA_LOSS and finding.fingerprint:
        digest = missing_digest(finding.missing)
        names = f"fingerprint {finding.fingerprint}{f', missing {digest}' if digest else ''}"
        lines += _labelled_lines("accept", names, width, "    ")
        lines.append(f"{'':<{4 + _LABEL_COLUMNS}}bkaudit report --accept {finding.fingerprint}")
    return lines


def describe_confidence(check: Check, finding: Finding) -> str:
    """Return the reason why a finding is confirmed, or the doubts for which it is not confirmed."""
    earlier_run = finding.evidence.get("earlier_run")
    if finding.confidence == Confidence.CONFIRMED and earlier_run:
        end_time = format_time(earlier_run["finished"])
        return f"Confirmed by two runs; the first was {earlier_run['name']}, of {end_time}."
    if finding.confidence == Confidence.CONFIRMED:
        return _check_sentences(check)[0]
    return f"{finding.confidence}: {'; '.join(doubt_sentences(check, finding))}"


def doubt_sentences(check: Check, finding: Finding) -> list[str]:
    """Return the doubts about a finding, which say why it is not confirmed.

    These are the finding's own doubts. If the finding has none, they are those in the section "How sure" of
    its check.
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
    return _SENTENCE_GAP.split(" ".join(check.sections["How sure"].split()))


def first_seen_text(change_status: ChangeStatus | None) -> str | None:
    """Return since when a finding exists and the suppression that names it. None if neither is recorded."""
    if change_status is None:
        return None
    if not change_status.change:
        return None if change_status.suppressed is None else f"suppressed: {change_status.suppressed}"
    unquoted_text: dict[str, str] = {
        Change.NEW: "new in this run",
        Change.WORSE: f"{format_time(change_status.first_seen)}; worse than in the run before",
        Change.BETTER: f"{format_time(change_status.first_seen)}; better than in the run before",
    }
    since_text = unquoted_text.get(change_status.change, format_time(change_status.first_seen))
    return (
        since_text
        if change_status.suppressed is None
        else f"{since_text}; suppressed: {change_status.suppressed}"
    )


def _labelled_lines(label: str, text: str, width: int, indent: str) -> list[str]:
    return labelled(label, text, width, indent=indent, columns=_LABEL_COLUMNS)
