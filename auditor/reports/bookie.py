"""Text page of one bookie: its identity, its directories, how completely it was read, and its problems.

No line except commands is wider than the page. The page has no colours.
"""

from dataclasses import replace

from auditor.actions.gate import HeldRun
from auditor.checks import BY_ID
from auditor.model.amounts import and_more, format_time, plural
from auditor.model.states import BookieRead, TailRead, TimeBasis
from auditor.model.views import (
    AliasView,
    BookieView,
    CookieView,
    DirectoryView,
    ProblemView,
    RegistrationView,
)
from auditor.reports.advice import blanks_of, page_advice, since_when
from auditor.reports.hold_text import bookie_hold_lines
from auditor.reports.plain_text import fold_text

_LABEL = 12
_TAILS: dict[str, str] = {
    TailRead.READ: "complete: their entries count as held",
    TailRead.STOPPED: "not needed: the bookie shut down cleanly, and its index is complete",
    TailRead.UNREAD: "incomplete",
}
_STORAGE = {
    "idx": "index files: InterleavedLedgerStorage or SortedLedgerStorage",
    "rocksdb": "DbLedgerStorage",
}
_READ: dict[str, str] = {
    BookieRead.READ: "completely",
    BookieRead.PARTIAL: "in part",
    BookieRead.UNREAD: "not at all",
}


def render(bookie: BookieView, width: int = 80, run: HeldRun | None = None) -> str:
    """Return the page of a bookie.

    Args:
        bookie: The bookie, as a run saw it.
        width: Columns of a line. Commands are never folded.
        run: The run whose holds are shown and decide on commands. None: show no holds.

    Returns:
        The lines on registration, cookie and ledgers, on directories, on holds, and on findings about the
            bookie.
    """
    parts = [
        [
            *_line("bookie", bookie.bookie_id, width),
            *_identity(bookie, width),
            *_reading(bookie, width),
            *_ledgers(bookie, width),
        ],
        [*_disks(bookie, width), *_journals(bookie, width)],
        [] if run is None else bookie_hold_lines(run, bookie.bookie_id, width),
        _problems(bookie, width, run),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _identity(bookie: BookieView, width: int) -> list[str]:
    lines = []
    for registration in bookie.registrations:
        lines += _registration(registration, width)
    if not bookie.registrations:
        lines += _line("registered", "no", width)
    lines += _cookie(bookie.cookie, width) if bookie.cookie else _line("cookie", "none in the store", width)
    for alias in bookie.aliases:
        lines += _alias(alias, width)
    return lines


def _alias(alias: AliasView, width: int) -> list[str]:
    registered = "registered" if alias.registered else "not registered"
    lines = _line("same as" if alias.same else "looks like", f"{alias.bookie_id} ({registered})", width)
    for rule, evidence, against in alias.edges:
        lines += _line("", f"{rule}: {evidence}" + (f"; but {against}" if against else ""), width)
    return lines


def _registration(registration: RegistrationView, width: int) -> list[str]:
    lasts = ", not ephemeral: no live bookie"
    lines = _line("registered", registration.mode + (lasts if registration.ephemeral is False else ""), width)
    for name, host, port, protocol in registration.endpoints:
        lines += _line("", f"{name} at {host}:{port} ({protocol})", width)
    if registration.damage is not None:
        lines += _line("", f"its service info cannot be read: {registration.damage}", width)
    elif not registration.endpoints:
        lines += _line("", "no endpoint", width)
    return lines


def _cookie(cookie: CookieView, width: int) -> list[str]:
    if cookie.damage is not None:
        return _line("cookie", f"in the store, cannot be read: {cookie.damage}", width)
    lines = _line("cookie", f"of {cookie.bookie_host}, layout {cookie.layout}", width)
    lines += _line("", f"instance {cookie.instance_id or 'none'}", width)
    for label, paths in (
        ("journal", (cookie.journal_dirs,)),
        ("ledgers", cookie.ledger_dirs),
        ("index", cookie.index_dirs),
    ):
        lines += [part for path in paths if path for part in _line("", f"{label} {path}", width)]
    return lines


def _reading(bookie: BookieView, width: int) -> list[str]:
    lines = _line("read", _READ[BookieRead(bookie.read)], width)
    if bookie.reason is not None:
        lines += _line("", bookie.reason, width)
    if bookie.suspect:
        lines += _line("", "a directory has the place or the id of another bookie", width)
    if bookie.storage is not None:
        lines += _line("storage", _STORAGE.get(bookie.storage, bookie.storage), width)
    lines += _line("index time", _time(bookie.index_time), width)
    if bookie.index_time_basis is not None:
        lines += _line("", TimeBasis(bookie.index_time_basis).sentence, width)
    return lines


def _ledgers(bookie: BookieView, width: int) -> list[str]:
    lines = _line("ledgers", f"{bookie.ledgers:,} name it; {bookie.depending:,} depend on it", width)
    lines += _line("", f"{bookie.replicas:,} checked on this bookie", width)
    if bookie.held is None:
        lines += _line("held", "unknown" if bookie.read != BookieRead.READ else "none", width)
    else:
        ledgers = f"{plural(bookie.held, 'ledger')}; {bookie.orphans:,} not in the metadata"
        lines += _line("held", ledgers, width)
    if bookie.marked:
        lines += _line("marked", "under-replication marks name it", width)
    return lines


def _disks(bookie: BookieView, width: int) -> list[str]:
    if not bookie.directories:
        return ["disks", "  none was found"]
    lines = ["disks"]
    for directory in bookie.directories:
        lines += _directory(bookie.bookie_id, directory, width)
    return lines


def _directory(bookie_id: str, directory: DirectoryView, width: int) -> list[str]:
    lines = _fold(directory.path, "  ", width)
    version = f"VERSION of {directory.cookie_bookie_id}, layout {directory.layout}"
    if directory.cookie_bookie_id is None:
        version = f"no VERSION: {directory.damage}" if directory.damage else "no VERSION"
    lines += _fold(f"{directory.role}; {version}", "    ", width)
    if directory.cookie_bookie_id is not None:
        lines += _fold(f"instance {directory.instance_id or 'none'}", "    ", width)
    if directory.index_time is not None:
        lines += _fold(f"last mark not older than {_time(directory.index_time)}", "    ", width)
    if directory.place != bookie_id:
        lines += _fold(f"in the place of {directory.place or 'no bookie'}", "    ", width)
    if directory.owner != bookie_id:
        lines += _fold(f"counted for {directory.owner or 'no bookie'}", "    ", width)
    if directory.contents:
        lines += _fold(f"ledgers in this directory: {directory.ledgers:,}", "    ", width)
        for content in directory.contents:
            lines += _fold(
                f"{content.bookie_id}: {content.named:,} name it, {content.exact:,} match entry for entry",
                "      ",
                width,
            )
    return lines


MAX_BACKUPS = 5
"""Number of old journal files that a server keeps by default (``journalMaxBackups``)."""


def _old_journals(files: int) -> str:
    """Return a sentence on journal files before the last mark, which a bookie does not read again."""
    retention = (
        f"journalMaxBackups keeps {MAX_BACKUPS} of them by default"
        if files <= MAX_BACKUPS
        else f"more than the {MAX_BACKUPS} that journalMaxBackups keeps by default"
    )
    return (
        f"{plural(files, 'old file')} below the mark ({retention}); entries that are lost elsewhere may be "
        "in there: bkaudit decode journal FILE --entries lists them"
    )


def _journals(bookie: BookieView, width: int) -> list[str]:
    """Return the lines on the journals: the entries after each last mark, and old files before it."""
    if not bookie.journals:
        return []
    lines = ["", "journals", *_fold(_TAILS.get(bookie.tail or "", "not checked"), "  ", width)]
    for journal in bookie.journals:
        lines += _fold(journal.path or "no journal directory", "  ", width)
        if journal.mark_file is not None:
            lines += _fold(f"mark {journal.mark_file}, byte {journal.mark_offset:,}", "    ", width)
            lines += _fold(
                f"{plural(journal.entries, 'entry')} after it, in {plural(journal.files, 'file')}",
                "    ",
                width,
            )
        if journal.reason is not None:
            lines += _fold(f"incomplete: {journal.reason}", "    ", width)
        if journal.files_below:
            lines += _fold(_old_journals(journal.files_below), "    ", width)
    return lines


def _problems(bookie: BookieView, width: int, run: HeldRun | None) -> list[str]:
    """Return the lines on problems: the first messages of each, its importance, confidence and what to do."""
    lines = ["problems"]
    instance = bookie.cookie.instance_id if bookie.cookie else None
    for number, problem in enumerate(bookie.problems):
        lines += [""] if number else []
        unsure = f", {problem.unsure:,} not confirmed" if problem.unsure else ""
        lines += _fold(f"{problem.id} ({problem.severity}; {problem.count:,}{unsure})", "  ", width)
        standings = problem.standings or (None,) * len(problem.messages)
        for message, standing in zip(problem.messages, standings, strict=True):
            since = since_when(standing)
            lines += _fold(message if since is None else f"{message} [since: {since}]", "    ", width)
        lines += and_more(problem.count - len(problem.messages), indent="    ")
        if (check := BY_ID.get(problem.id)) is not None:
            blanks, counts = _blanks(bookie.bookie_id, problem, instance), (problem.count, problem.unsure)
            lines += page_advice(check, blanks, width, "    ", *counts, bookie.storage, problem.first, run)
    return lines if len(lines) > 1 else [*lines, "  none"]


def _blanks(bookie_id: str, problem: ProblemView, instance_id: str | None) -> dict[str, str]:
    if problem.first is not None:
        return blanks_of(replace(problem.first, bookie_id=bookie_id), instance_id)
    return {"BOOKIE": bookie_id} | ({} if instance_id is None else {"INSTANCE": instance_id})


def _line(label: str, text: str, width: int) -> list[str]:
    """Return a label with a text beside it. Lines after the first are indented."""
    return fold_text(text, width, f"{label:<{_LABEL}}", " " * (_LABEL + 2))


def _fold(text: str, indent: str, width: int) -> list[str]:
    return fold_text(text, width, indent, f"{indent}    ")


def _time(ms: int | None) -> str:
    return "unknown" if ms is None else format_time(ms)
