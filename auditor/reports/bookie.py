"""Text page of one bookie: its identity, its directories, how completely it was read, and its problems.

Only commands can be wider than the page. The page has no colours.
"""

from dataclasses import replace

from auditor.actions.gate import GateRun
from auditor.checks import CHECK_BY_ID
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
from auditor.reports.advice import check_page_lines, first_seen_text, placeholders_of
from auditor.reports.hold_text import bookie_hold_lines
from auditor.reports.plain_text import fold_text

_LABEL_COLUMNS = 12
_JOURNAL_READ_TEXTS: dict[str, str] = {
    TailRead.READ: "read completely: entries in them count as present on the bookie",
    TailRead.STOPPED: "not read: the bookie shut down cleanly, so its index is complete",
    TailRead.UNREAD: "incomplete",
}
_STORAGE_TEXTS = {
    "idx": "index files: InterleavedLedgerStorage or SortedLedgerStorage",
    "rocksdb": "DbLedgerStorage",
}
_BOOKIE_READ_TEXTS: dict[str, str] = {
    BookieRead.READ: "completely",
    BookieRead.PARTIAL: "in part",
    BookieRead.UNREAD: "not at all",
}


def render(bookie: BookieView, width: int = 80, run: GateRun | None = None) -> str:
    """Return the page of a bookie.

    Args:
        bookie: The bookie, as a run saw it.
        width: Columns of a line. Commands are never folded.
        run: The run whose holds (rules that forbid actions) are shown. They also decide which commands are
            permitted. None: show no holds.

    Returns:
        Lines on the registration, the cookie and the ledgers, then on directories, on holds, and on
            findings about the bookie.
    """
    parts = [
        [
            *_labelled_lines("bookie", bookie.bookie_id, width),
            *_identity_lines(bookie, width),
            *_reading_lines(bookie, width),
            *_ledger_lines(bookie, width),
        ],
        [*_disk_lines(bookie, width), *_journal_lines(bookie, width)],
        [] if run is None else bookie_hold_lines(run, bookie.bookie_id, width),
        _problem_lines(bookie, width, run),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _identity_lines(bookie: BookieView, width: int) -> list[str]:
    lines = []
    for registration in bookie.registrations:
        lines += _registration_lines(registration, width)
    if not bookie.registrations:
        lines += _labelled_lines("registered", "no", width)
    lines += (
        _cookie_lines(bookie.cookie, width)
        if bookie.cookie
        else _labelled_lines("cookie", "none in the store", width)
    )
    for alias in bookie.aliases:
        lines += _alias_lines(alias, width)
    return lines


def _alias_lines(alias: AliasView, width: int) -> list[str]:
    registered_text = "registered" if alias.registered else "not registered"
    lines = _labelled_lines(
        "same as" if alias.is_same_bookie else "looks like", f"{alias.bookie_id} ({registered_text})", width
    )
    for rule, evidence, counter_evidence in alias.rule_evidence:
        lines += _labelled_lines(
            "", f"{rule}: {evidence}" + (f"; but {counter_evidence}" if counter_evidence else ""), width
        )
    return lines


def _registration_lines(registration: RegistrationView, width: int) -> list[str]:
    not_ephemeral_clause = "; the node is not ephemeral, so it does not prove that the bookie is alive"
    lines = _labelled_lines(
        "registered",
        registration.mode + (not_ephemeral_clause if registration.ephemeral is False else ""),
        width,
    )
    for name, host, port, protocol in registration.endpoints:
        lines += _labelled_lines("", f"{name} at {host}:{port} ({protocol})", width)
    if registration.damage is not None:
        lines += _labelled_lines("", f"service info cannot be read: {registration.damage}", width)
    elif not registration.endpoints:
        lines += _labelled_lines("", "no endpoint", width)
    return lines


def _cookie_lines(cookie: CookieView, width: int) -> list[str]:
    if cookie.damage is not None:
        return _labelled_lines("cookie", f"is in the store, but cannot be read: {cookie.damage}", width)
    lines = _labelled_lines("cookie", f"belongs to {cookie.bookie_host}, layout {cookie.layout}", width)
    lines += _labelled_lines("", f"instance {cookie.instance_id or 'none'}", width)
    for label, paths in (
        ("journal", (cookie.journal_dirs,)),
        ("ledgers", cookie.ledger_dirs),
        ("index", cookie.index_dirs),
    ):
        lines += [part for path in paths if path for part in _labelled_lines("", f"{label} {path}", width)]
    return lines


def _reading_lines(bookie: BookieView, width: int) -> list[str]:
    lines = _labelled_lines("read", _BOOKIE_READ_TEXTS[BookieRead(bookie.read)], width)
    if bookie.reason is not None:
        lines += _labelled_lines("", bookie.reason, width)
    if bookie.suspect:
        lines += _labelled_lines("", "a directory has the path or the id of another bookie", width)
    if bookie.storage is not None:
        lines += _labelled_lines("storage", _STORAGE_TEXTS.get(bookie.storage, bookie.storage), width)
    lines += _labelled_lines("index time", _time_text(bookie.index_time), width)
    if bookie.index_time_basis is not None:
        lines += _labelled_lines("", TimeBasis(bookie.index_time_basis).sentence, width)
    return lines


def _ledger_lines(bookie: BookieView, width: int) -> list[str]:
    lines = _labelled_lines(
        "ledgers",
        f"{bookie.ledgers:,} name this bookie; {bookie.depending:,} depend on it",
        width,
    )
    lines += _labelled_lines("", f"{bookie.replicas:,} were checked on this bookie", width)
    if bookie.held_ledgers is None:
        lines += _labelled_lines("held", "unknown" if bookie.read != BookieRead.READ else "none", width)
    else:
        ledgers_text = (
            f"{plural(bookie.held_ledgers, 'ledger')}; {bookie.orphan_ledgers:,} of them not in the metadata"
        )
        lines += _labelled_lines("held", ledgers_text, width)
    if bookie.marked:
        lines += _labelled_lines("marked", "under-replication marks name this bookie", width)
    return lines


def _disk_lines(bookie: BookieView, width: int) -> list[str]:
    if not bookie.directories:
        return ["disks", "  no disk was found"]
    lines = ["disks"]
    for directory in bookie.directories:
        lines += _directory_lines(bookie.bookie_id, directory, width)
    return lines


def _directory_lines(bookie_id: str, directory: DirectoryView, width: int) -> list[str]:
    lines = _indented_lines(directory.path, "  ", width)
    version_text = f"VERSION names {directory.cookie_bookie_id}, layout version {directory.layout}"
    if directory.cookie_bookie_id is None:
        version_text = f"no usable VERSION: {directory.damage}" if directory.damage else "no VERSION"
    lines += _indented_lines(f"{directory.role}; {version_text}", "    ", width)
    if directory.cookie_bookie_id is not None:
        lines += _indented_lines(f"instance {directory.instance_id or 'none'}", "    ", width)
    if directory.index_time is not None:
        lines += _indented_lines(
            f"last mark was written at {_time_text(directory.index_time)} or later", "    ", width
        )
    if directory.place != bookie_id:
        lines += _indented_lines(f"its path belongs to {directory.place or 'no bookie'}", "    ", width)
    if directory.owner != bookie_id:
        lines += _indented_lines(f"attributed to {directory.owner or 'no bookie'}", "    ", width)
    if directory.owner_candidates:
        lines += _indented_lines(f"ledgers in this directory: {directory.ledgers:,}", "    ", width)
        for match in directory.owner_candidates:
            match_text = (
                f"{match.naming_ledgers:,} name this id; {match.matching_ledgers:,} match it entry for entry"
            )
            lines += _indented_lines(f"{match.bookie_id}: {match_text}", "      ", width)
    return lines


DEFAULT_MAX_BACKUPS = 5
"""Number of old journal files that a server keeps by default (``journalMaxBackups``)."""


def _old_journals_text(file_count: int) -> str:
    """Return a sentence on journal files before the last checkpoint. A bookie does not read them again."""
    retention_text = (
        f"by default, journalMaxBackups keeps {DEFAULT_MAX_BACKUPS}"
        if file_count <= DEFAULT_MAX_BACKUPS
        else f"more than the {DEFAULT_MAX_BACKUPS} that journalMaxBackups keeps by default"
    )
    return (
        f"{plural(file_count, 'old file')} before the mark ({retention_text}). These files may contain "
        "entries that are lost elsewhere. To list them, run: bkaudit decode journal FILE --entries"
    )


def _journal_lines(bookie: BookieView, width: int) -> list[str]:
    """Return lines on each journal: the entries after its last checkpoint, and the files before it."""
    if not bookie.journals:
        return []
    lines = [
        "",
        "journals",
        *_indented_lines(_JOURNAL_READ_TEXTS.get(bookie.tail or "", "not checked"), "  ", width),
    ]
    for journal in bookie.journals:
        lines += _indented_lines(journal.path or "no journal directory", "  ", width)
        if journal.mark_file is not None:
            lines += _indented_lines(f"mark {journal.mark_file}, byte {journal.mark_offset:,}", "    ", width)
            lines += _indented_lines(
                f"{plural(journal.entries, 'entry')} after the mark, in {plural(journal.files, 'file')}",
                "    ",
                width,
            )
        if journal.reason is not None:
            lines += _indented_lines(f"incomplete: {journal.reason}", "    ", width)
        if journal.files_below:
            lines += _indented_lines(_old_journals_text(journal.files_below), "    ", width)
    return lines


def _problem_lines(bookie: BookieView, width: int, run: GateRun | None) -> list[str]:
    """Return the lines on the bookie's problems.

    Each problem is shown with its first messages, its importance, its confidence, and what to do.
    """
    lines = ["problems"]
    instance_id = bookie.cookie.instance_id if bookie.cookie else None
    for number, problem in enumerate(bookie.problems):
        lines += [""] if number else []
        unconfirmed_clause = (
            f", {problem.unconfirmed_count:,} unconfirmed" if problem.unconfirmed_count else ""
        )
        lines += _indented_lines(
            f"{problem.id} ({problem.severity}; {problem.count:,}{unconfirmed_clause})", "  ", width
        )
        change_statuses = problem.statuses or (None,) * len(problem.messages)
        for message, change_status in zip(problem.messages, change_statuses, strict=True):
            since_text = first_seen_text(change_status)
            lines += _indented_lines(
                message if since_text is None else f"{message} [since: {since_text}]", "    ", width
            )
        lines += and_more(problem.count - len(problem.messages), indent="    ")
        if (check := CHECK_BY_ID.get(problem.id)) is not None:
            placeholders, problem_counts = (
                _placeholders_of(bookie.bookie_id, problem, instance_id),
                (problem.count, problem.unconfirmed_count),
            )
            lines += check_page_lines(
                check,
                placeholders,
                width,
                "    ",
                *problem_counts,
                bookie.storage,
                problem.first_ledger_finding,
                run,
            )
    return lines if len(lines) > 1 else [*lines, "  none"]


def _placeholders_of(bookie_id: str, problem: ProblemView, instance_id: str | None) -> dict[str, str]:
    if problem.first_ledger_finding is not None:
        return placeholders_of(replace(problem.first_ledger_finding, bookie_id=bookie_id), instance_id)
    return {"BOOKIE": bookie_id} | ({} if instance_id is None else {"INSTANCE": instance_id})


def _labelled_lines(label: str, text: str, width: int) -> list[str]:
    """Return a label with a text beside it. Lines after the first are indented."""
    return fold_text(text, width, f"{label:<{_LABEL_COLUMNS}}", " " * (_LABEL_COLUMNS + 2))


def _indented_lines(text: str, indent: str, width: int) -> list[str]:
    return fold_text(text, width, indent, f"{indent}    ")


def _time_text(time_ms: int | None) -> str:
    return "unknown" if time_ms is None else format_time(time_ms)
