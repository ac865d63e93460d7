"""What to do about a finding: why it matters, how sure it is, since when, and commands with their risk.

The words are those of the check's manual page; what its commands leave open is filled in where it is known.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, islice
from types import MappingProxyType

from auditor.checks import BY_ID, Check
from auditor.checks.gc_guards import DOUBT_WORDS
from auditor.model.amounts import format_time
from auditor.model.finding import Confidence, Finding, FindingWithHistory, Standing
from auditor.model.states import Change
from auditor.reports.check_pages import command_lines
from auditor.reports.finding_text import class_groups, class_text, positions_text
from auditor.reports.plain_text import fold_text, labelled

Blanks = Mapping[str, str]
"""Words in capitals of a manual page's commands, and what to put in their place."""
Storages = Mapping[str, str]
"""How the index of a bookie is kept (`auditor.tables.registry.BOOKIES`), where that is known."""

# Doubts that a table keeps as a word.
_DOUBTS = {**DOUBT_WORDS, "attribution-suspect": "a directory's cookie and its place name two bookies"}
_LABEL = 7
RUNS_SHOWN = 3
"""Runs of entries that a command is shown for."""
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
_UNSURE = ("Suspect", "Always")
HOST_PORT = re.compile(r"[^:]+:\d+(:.*)?")
"""What the shell's commands for cookies take as an id of a bookie."""
_OPEN_STORAGE = "How to rebuild an index depends on the bookie's storage, which this run did not see."
_COOKIE = re.compile(r"bookkeeper shell cookie_")
_DECIMAL = re.compile(r"-?\d+")
_NAMES_LEDGER = re.compile(r"\bID\b")
_NAMES_LAST = re.compile(r"\bLAST\b")


def blanks_of(finding: Finding, instance_id: str | None = None) -> dict[str, str]:
    """What a finding fills in: its only ledger, a bookie, and the entries that this one lacks, or may lack.

    >>> from auditor.model.finding import Missing, Severity
    >>> lost = Missing("bk1:3181", ((4, 10, 2, 3),), 6)
    >>> blanks_of(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42, missing=(lost,)))
    {'ID': '42', 'BOOKIE': 'bk1:3181', 'FIRST': '4', 'NEXT': '12'}
    >>> one = {"ledgers": 1, "sample": ["103"]}
    >>> blanks_of(Finding("gc-would-delete-live", Severity.CRITICAL, Confidence.CONFIRMED, evidence=one))
    {'ID': '103'}
    """
    found: dict[str, str] = {}
    sample: Sequence[object] = finding.evidence.get("sample") or [""]
    if finding.ledger_id is not None:
        found["ID"] = str(finding.ledger_id)
    elif finding.evidence.get("ledgers") == 1 and _DECIMAL.fullmatch(str(sample[0])):
        found["ID"] = str(sample[0])
    bookies = [finding.bookie_id, *(part.bookie_id for part in finding.missing), *finding.unknown]
    if bookie := next((name for name in bookies if name is not None), None):
        found["BOOKIE"] = bookie
    lacking = [part.groups for part in finding.missing if part.bookie_id == found.get("BOOKIE")]
    of_class = class_groups(finding) if found.get("BOOKIE") in finding.unknown else ()
    if groups := lacking[0] if lacking else of_class:
        found["FIRST"] = str(min(first for first, _, _, _ in groups))
        found["NEXT"] = str(max(last + size for _, last, size, _ in groups))
    if instance_id is not None:
        found["INSTANCE"] = instance_id
    return found


def fill_command(command: str, blanks: Blanks) -> str:
    """A command with what is known put into it, quoted for a shell.

    What cannot be shown as it is stays open, for a command with another name in it would be a wrong one.

    >>> fill_command("bookkeeper shell recover -q BOOKIE", {"BOOKIE": "bk 1;reboot"})
    "bookkeeper shell recover -q 'bk 1;reboot'"
    """
    words = []
    for word in command.split():
        value = blanks.get(word)
        words.append(word if value is None or not value.isprintable() else shlex.quote(value))
    return " ".join(words)


def class_runs(finding: Finding, most: int) -> tuple[list[tuple[int, int]], int]:
    """First and last entry of at most so many runs in the class of a ledger's finding; how many there are.

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
    return list(islice(runs, most)), total


def advice(
    check: Check,
    blanks: Blanks,
    width: int,
    indent: str = "",
    scope_id: int | None = 0,
    finding: Finding | None = None,
    storages: Collection[str | None] | None = None,
) -> list[str]:
    """What to do: the check's words, then its commands, each with what it does and risks.

    A command for a run of entries is shown for each run in the class of ``finding``, up to `RUNS_SHOWN`.
    ``storages`` are those of the bookies that it is about, None for a bookie of which it is not known: only
    commands for these are shown. Without it all are.
    """
    lines = _label("do", check.sections["What to do"].replace("\n- ", " "), width, indent)
    below_0 = blanks.get("ID", "").startswith("-")
    open_storage = False
    for command in check.commands:
        if (scope_id or below_0) and _NAMES_LEDGER.search(command.text):
            continue
        if storages is not None and command.storage is not None and command.storage not in storages:
            open_storage |= not storages or None in storages
            continue
        shown, *below = command_lines(command, width, indent + " " * _LABEL)
        of_runs = finding is not None and _NAMES_LAST.search(command.text)
        runs, total = class_runs(finding, RUNS_SHOWN) if finding and of_runs else ([], 0)
        for first, last in runs:
            filled = fill_command(shown.strip(), {**blanks, "FIRST": str(first), "LAST": str(last)})
            lines.append(indent + " " * _LABEL + filled)
        if not runs:
            lines.append(indent + " " * _LABEL + fill_command(shown.strip(), blanks))
        if total > len(runs):
            rest = f"and the same for {total - len(runs):,} more runs of entries"
            inner = indent + " " * (_LABEL + 4)
            lines += fold_text(rest, width, inner, inner)
        lines += below
        if _COOKIE.match(command.text) and not HOST_PORT.fullmatch(blanks.get("BOOKIE", "host:1")):
            inner = indent + " " * (_LABEL + 4)
            lines += fold_text("The shell refuses an id that is not a host:port.", width, inner, inner)
    if open_storage:
        lines += _label("", _OPEN_STORAGE, width, indent)
    if scope_id:
        lines += _label("", f"No released shell takes a ledger of scope {scope_id}.", width, indent)
    elif below_0:
        lines += _label("", "No released shell takes a ledger id below 0.", width, indent)
    return lines


def storages_of(finding: Finding, known: Storages) -> set[str | None]:
    """How the indexes are kept of the bookies that a finding is about."""
    lacking = (part.bookie_id for part in finding.missing)
    about = {name for name in (finding.bookie_id, *lacking, *finding.unknown) if name is not None}
    return {known.get(name) for name in about}


def advice_lines(
    found: Sequence[FindingWithHistory],
    width: int,
    instance_id: str | None = None,
    storages: Storages = MappingProxyType({}),
) -> list[str]:
    """Findings, of one check after the other: each with since when; how sure, why and what to do once.

    Where not all findings of a check are equally sure, each says how sure it is.
    """
    lines: list[str] = []
    for id, group in groupby(found, key=lambda each: each.finding.id):
        each = list(group)
        check = BY_ID.get(id)
        lines += [""] if lines else []
        lines.append(id if check is None else f"{id}: {check.title}")
        lines = [*lines[:-1], *fold_text(lines[-1], width)]
        certainties = [how_sure(check, one.finding) for one in each] if check else [""] * len(each)
        alike = len(set(certainties)) == 1
        for one, certainty in zip(each, certainties, strict=True):
            lines += _finding(one, "" if alike else certainty, width)
        if check is not None:
            first = each[0].finding
            lines += _label("sure", certainties[0], width, "  ") if alike else []
            lines += _label("why", check.sections["Why it matters"], width, "  ")
            blanks, kinds = blanks_of(first, instance_id), storages_of(first, storages)
            lines += advice(check, blanks, width, "  ", first.scope_id, first, kinds)
    return lines


def page_advice(
    check: Check,
    blanks: Blanks,
    width: int,
    indent: str,
    count: int,
    unsure: int,
    storage: str | None,
    first: Finding | None,
) -> list[str]:
    """What a check says of its ``count`` findings on a bookie: why, how sure in one line, what to do.

    Commands are for the ``first`` that is about a ledger.
    """
    certainty = _sentences(check)[0]
    if unsure or not certainty.startswith("Confirmed") or len(certainty) > width - len(indent) - _LABEL:
        confirmed = "confirmed" if not unsure else f"{count - unsure:,} of {count:,} confirmed"
        certainty = f"{confirmed}; bkaudit explain check {check.id}"
    return [
        *_label("why", check.sections["Why it matters"], width, indent),
        f"{indent}{'sure':<{_LABEL}}{certainty}",
        *advice(check, blanks, width, indent, first.scope_id if first else 0, first, {storage}),
    ]


def _finding(one: FindingWithHistory, certainty: str, width: int) -> list[str]:
    finding = one.finding
    lines = fold_text(f"{finding.severity}: {finding.message}", width, "  ", "    ")
    for part in filter(None, (class_text(finding), positions_text(finding))):
        lines += fold_text(part, width, "    ", "      ")
    if certainty:
        lines += _label("sure", certainty, width, "    ")
    if (since := since_when(one.standing)) is not None:
        lines += _label("since", since, width, "    ")
    return lines


def how_sure(check: Check, finding: Finding) -> str:
    """Why a finding is confirmed, or why it is not."""
    earlier = finding.evidence.get("earlier_run")
    if finding.confidence == Confidence.CONFIRMED and earlier:
        return (
            f"Confirmed by two runs; the first was {earlier['name']}, of {format_time(earlier['finished'])}."
        )
    if finding.confidence == Confidence.CONFIRMED:
        return _sentences(check)[0]
    return f"{finding.confidence}: {'; '.join(doubt_sentences(check, finding))}"


def doubt_sentences(check: Check, finding: Finding) -> list[str]:
    """The doubts that a finding has itself, else what findings of its check may have."""
    doubts = [_DOUBTS.get(str(doubt), str(doubt)) for doubt in finding.evidence.get("doubts") or ()]
    if finding.evidence.get("attribution_suspect"):
        doubts.append(_DOUBTS["attribution-suspect"])
    if doubts:
        return doubts
    sentences = _sentences(check)
    said = " ".join([each for each in sentences if each.startswith(_UNSURE)] or sentences)
    return [said[0].lower() + said[1:].removesuffix(".")]


def _sentences(check: Check) -> list[str]:
    return _SENTENCE.split(" ".join(check.sections["How sure"].split()))


def since_when(standing: Standing | None) -> str | None:
    """Since when it has been there, and who knows of it; None where the run kept nothing of it."""
    if standing is None:
        return None
    if not standing.change:
        return None if standing.suppressed is None else f"suppressed: {standing.suppressed}"
    words: dict[str, str] = {
        Change.NEW: "new in this run",
        Change.WORSE: f"{format_time(standing.first_seen)}; worse than in the run before",
        Change.BETTER: f"{format_time(standing.first_seen)}; better than in the run before",
    }
    said = words.get(standing.change, format_time(standing.first_seen))
    return said if standing.suppressed is None else f"{said}; suppressed: {standing.suppressed}"


def _label(label: str, text: str, width: int, indent: str) -> list[str]:
    return labelled(label, text, width, indent=indent, columns=_LABEL)
