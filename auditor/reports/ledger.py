"""Text page of one ledger, with a drawing that has bookies as rows and entries as columns.

    bk-a:3181  ##.##.##.##
    bk-b:3181  .##X##.##.#
    bk-c:3181  ??????????

A column is one entry. If the ledger has more entries than the drawing has columns, it is a range of entries.
Each cell shows one state (`Cell`). Drawings in text, SVG and data frames all come from `stripes_of`.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import GROUP, Groups
from auditor.model.amounts import and_more, first_names, plural
from auditor.model.finding import Group
from auditor.model.ledger_id import LedgerId
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import IndexState, LedgerClass, Reach, WitnessAnswer
from auditor.model.views import LedgerView, LogEntriesView, ReplicaView
from auditor.reports.finding_text import entries_text
from auditor.reports.plain_text import columns_of, cut_middle, fold_text, pad_text, printable, wrap_words


class Cell(StrEnum):
    """State of the entries in one column of a ledger's drawing, on one bookie."""

    PRESENT = "held"  # all entries that it should hold
    MISSING = "missing"  # none of the entries that it should hold
    SOME_MISSING = "some missing"
    UNKNOWN = "unknown"  # unread entries, which the bookie may hold
    SURPLUS = "surplus"  # it should hold none, and holds some
    NOT_EXPECTED = "not expected"


def column_width(last_entry: int, columns: int) -> str:
    """Return the mean number of entries in a column of the drawing, as text.

    A number below 10 has at most one decimal. ``last_entry`` is the last entry in the drawing.

    >>> column_width(99, 54), column_width(99, 50), column_width(10**6, 54)
    ('1.9', '2', '18,518')
    """
    mean_entries = (last_entry + 1) / columns
    return f"{int(mean_entries):,}" if mean_entries >= 10 else f"{mean_entries:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Replica:
    """A ledger's expected, missing and surplus entries on one bookie."""

    view: ReplicaView
    expected: Groups
    missing: Groups  # expected and not held
    surplus: Groups  # held and not expected


@dataclass(frozen=True, slots=True)
class Stripes:
    """Drawing of a ledger as cells.

    ``column_edges`` has the first entry of each column, then the last entry plus one. ``cells`` has one tuple
    for each bookie in ``bookies``, with one state for each column. All three are empty if there is no entry
    to draw. ``bookies_total`` also counts the bookies that are not drawn.
    """

    column_edges: tuple[int, ...]
    bookies: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    bookies_total: int


def replicas_of(ledger: LedgerView) -> list[Replica]:
    """Return each replica of a ledger with its missing and surplus entries."""
    replicas = []
    for view in ledger.replicas:
        expected_groups = np.frombuffer(view.expected_entries, GROUP)
        held_groups = np.frombuffer(view.held_entries, GROUP)
        missing_groups, surplus_groups = (
            coverage.difference(expected_groups, held_groups),
            coverage.difference(held_groups, expected_groups),
        )
        replicas.append(Replica(view, expected_groups, missing_groups, surplus_groups))
    return replicas


def stripes_of(ledger: LedgerView, replicas: Sequence[Replica], columns: int, rows: int) -> Stripes:
    """Return the drawing of a ledger.

    Args:
        ledger: The ledger, as a run saw it.
        replicas: The ledger's replicas (`replicas_of`).
        columns: Largest number of columns. The numbers of entries in two columns differ by at most one.
        rows: Largest number of bookies.
    """
    last_entry = last_drawn_entry(ledger, replicas)
    column_count = min(columns, last_entry + 1)
    if column_count <= 0 or not replicas:
        return Stripes((), (), (), len(replicas))
    # Integers, because a float cannot represent large entry ids exactly.
    column_edges = tuple((last_entry + 1) * number // column_count for number in range(column_count + 1))
    shown_replicas = replicas[:rows]
    return Stripes(
        column_edges,
        tuple(replica.view.bookie_id for replica in shown_replicas),
        tuple(_stripe_cells(replica, column_edges) for replica in shown_replicas),
        len(replicas),
    )


def last_drawn_entry(ledger: LedgerView, replicas: Sequence[Replica]) -> int:
    """Return the last entry to draw. It is -1 if there is none.

    For a closed ledger it is the last entry id in the metadata. For a ledger that is not closed it is the
    last entry that a bookie holds or should hold.
    """
    if ledger.state == LedgerState.CLOSED and ledger.last_entry_id is not None and ledger.last_entry_id >= 0:
        return ledger.last_entry_id
    segment_ends = [
        coverage.last_entry(groups) for replica in replicas for groups in (replica.expected, replica.surplus)
    ]
    return max(segment_ends, default=-1)


def _stripe_cells(replica: Replica, column_edges: Sequence[int]) -> tuple[Cell, ...]:
    entry_sets = (replica.expected, replica.missing, replica.surplus)
    counts = (coverage.count_between(groups, column_edges) for groups in entry_sets)
    return tuple(_stripe_cell(replica.view.known, *column) for column in zip(*counts, strict=True))


def _stripe_cell(is_known: bool, expected_count: int, lacking_count: int, surplus_count: int) -> Cell:
    if lacking_count:
        if not is_known:
            return Cell.UNKNOWN
        return Cell.MISSING if lacking_count == expected_count else Cell.SOME_MISSING
    if expected_count:
        return Cell.PRESENT
    # Whether an unread bookie holds entries that are not expected is unknown, and not drawn.
    return Cell.SURPLUS if surplus_count else Cell.NOT_EXPECTED


WIDTH = 80
MAX_PAIRS = 8
MAX_LABEL_COLUMNS = 24
MAX_ROWS = 40
MAX_SEGMENTS = 12
MAX_DOWN_BOOKIES = 3


ASCII_SIGNS = dict(zip(Cell, "#Xx?+.", strict=True))
UNICODE_SIGNS = dict(zip(Cell, "█○◐?+·", strict=True))
"""Character for each state of a cell."""


def render(ledger: LedgerView, unicode: bool = False, drawing: bool = True, width: int = WIDTH) -> str:
    """Return the page of a ledger: metadata, segments, the drawing, and missing or unknown entries in words.

    Args:
        ledger: The ledger, as a run saw it.
        unicode: Whether the drawing may use characters outside ASCII.
        drawing: Whether the page has the drawing.
        width: Columns of a line. Only a line with a long path or id is wider.
    """
    signs = UNICODE_SIGNS if unicode else ASCII_SIGNS
    rows = replicas_of(ledger)
    drawing_lines = _stripe_drawing(ledger, rows, signs, width) if drawing else []
    parts = [_metadata_lines(ledger, width), _segment_lines(ledger, width), drawing_lines]
    parts += [_replica_lines(ledger, rows, width), _log_lines(ledger, width), _answer_lines(ledger, width)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _metadata_lines(ledger: LedgerView, width: int) -> list[str]:
    full_id = LedgerId(ledger.ledger_id, ledger.scope_id)
    if ledger.status == "gone":
        return _wrap_text(f"{full_id.display_name}: not in the metadata, but bookies have it", width, "  ")
    verdict = _ledger_class_text(ledger)
    if ledger.potential_class not in (None, ledger.judged_class):
        verdict += f" (could be {ledger.potential_class})"
    lines = _wrap_text(f"{full_id.display_name}: {verdict}", width, "  ")
    fact_rows = [("at", f"{ledger.path}, version {ledger.version}")]
    if ledger.scope_id:
        fact_rows.append(("named", full_id.qualified_name))
    if ledger.damage is not None:
        fact_rows.append(("damaged", ledger.damage))
    if ledger.state is not None:
        end_text = (
            f", last entry {ledger.last_entry_id}, {ledger.length} bytes"
            if ledger.state == LedgerState.CLOSED
            else ""
        )
        quorums = f"write quorum {ledger.write_quorum}, ack quorum {ledger.ack_quorum}"
        fact_rows.append(("state", f"{ledger.state}{end_text}"))
        fact_rows.append(("copies", f"ensemble {ledger.ensemble_size}, {quorums}"))
    if ledger.down_members:
        names = first_names([*map(printable, ledger.down_members)], MAX_DOWN_BOOKIES)
        fact_rows.append(("down", f"{names}: not registered"))
    elif ledger.availability_unknown:
        fact_rows.append(("down", "unknown: the saved metadata has no registrations"))
    fact_rows.append(("written", f"created {_time_text(ledger.ctime)}, changed {_time_text(ledger.mtime)}"))
    pairs = [cut_middle(f"{key} = {value}", width - 12) for key, value in ledger.custom_metadata[:MAX_PAIRS]]
    pairs += and_more(len(ledger.custom_metadata) - MAX_PAIRS)
    texts_by_label = (
        ("queue", ledger.mark_texts),
        ("attached", pairs),
        ("breaks", ledger.rules),
        ("doubts", ledger.doubts),
    )
    fact_rows += [(label, fact_text) for label, fact_texts in texts_by_label for fact_text in fact_texts]
    for label, text in fact_rows:
        lines += wrap_words(printable(text), width, f"  {label:<9} ", " " * 12) or [f"  {label}"]
    return lines


def _wrap_text(text: str, width: int, indent: str) -> list[str]:
    """Return a text in lines, breaking words only if necessary. ``indent`` begins all lines but the first."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def _ledger_class_text(ledger: LedgerView) -> str:
    """Return a text on the ledger's class, and on what registered bookies can serve.

    Copies on disk decide the class. A ledger with an unregistered ensemble member is never called healthy.
    """
    class_text = ledger.judged_class or "not judged"
    if not ledger.down_members:
        return class_text
    copies_text = class_text
    if class_text == LedgerClass.HEALTHY:
        has_all_copies = ledger.potential_class == LedgerClass.HEALTHY
        copies_text = "all copies on disk" if has_all_copies else "no copy known to be missing"
    match ledger.reachability:
        case Reach.UNAVAILABLE:
            unreachable_text = plural(ledger.unreached, "entry", "entries")
            return f"unavailable: no registered bookie can serve {unreachable_text}; {copies_text}"
        case Reach.UNRECOVERABLE:
            return f"cannot be closed: too few ensemble members are registered; {copies_text}"
        case Reach.SINGLE_COPY:
            return f"one reachable copy; {copies_text}"
    return f"{plural(len(ledger.down_members), 'ensemble member')} down; {copies_text}"


def _segment_lines(ledger: LedgerView, width: int) -> list[str]:
    """Return the lines on the segments of a ledger: the entries and the ensemble of each segment."""
    lines = []
    segments = ledger.segments
    for number, segment in enumerate(segments[:MAX_SEGMENTS]):
        if number + 1 < len(segments):
            end = str(segments[number + 1].first_entry_id - 1)
        else:
            end = str(ledger.last_entry_id) if ledger.state == LedgerState.CLOSED else ""
        line = f"  entries {segment.first_entry_id}-{end}: {' '.join(segment.ensemble)}"
        lines += _wrap_text(line, width, "      ")
    lines += and_more(len(segments) - MAX_SEGMENTS, " segments", "  ")
    return ["segments", *lines] if lines else []


def _stripe_drawing(
    ledger: LedgerView, replicas: Sequence[Replica], signs: Mapping[Cell, str], width: int
) -> list[str]:
    if not replicas:
        return ["no bookie should hold an entry, and none does"]
    label_width = min(MAX_LABEL_COLUMNS, max(columns_of(replica.view.bookie_id) for replica in replicas)) + 2
    stripes = stripes_of(ledger, replicas, width - label_width, MAX_ROWS)
    edges, columns = stripes.column_edges, len(stripes.column_edges) - 1
    if columns < 1:
        return ["the ledger has no entries, so no bookie should hold any"]
    last_entry = edges[-1] - 1
    last_label = str(last_entry).rjust(max(columns - 1, len(str(last_entry)) + 1)) if last_entry else ""
    lines = [f"{'':<{label_width}}0{last_label}"]
    starts = {segment.first_entry_id for segment in ledger.segments[1:]}
    if any(0 < start <= last_entry for start in starts):
        segment_line = "".join(
            "|" if any(edges[column_number] <= start < edges[column_number + 1] for start in starts) else " "
            for column_number in range(columns)
        )
        lines.append(f"{'segments':<{label_width}}{segment_line}".rstrip())
    for bookie_id, cells in zip(stripes.bookies, stripes.cells, strict=True):
        lines.append(pad_text(_short_name(bookie_id), label_width) + "".join(signs[cell] for cell in cells))
    lines += and_more(len(replicas) - MAX_ROWS, " bookies")
    if columns <= last_entry:
        lines.append(f"each column stands for about {column_width(last_entry, columns)} entries")
    # A NUL keeps a sign and its word in one line. Two blanks separate the pairs.
    legend = "\0 ".join(f"{sign} {cell}".replace(" ", "\0") for cell, sign in signs.items())
    return [*lines, *fold_text(legend, width)]


def _replica_lines(ledger: LedgerView, replicas: Sequence[Replica], width: int) -> list[str]:
    folded_lines: list[str] = []
    for replica in replicas[:MAX_ROWS]:
        for replica_text in replica_texts(ledger, replica):
            folded_lines += _wrap_text(f"{replica.view.bookie_id} {replica_text}", width, "    ")
    return folded_lines


def replica_texts(
    ledger: LedgerView,
    replica: Replica,
    index_prefix: str = "",
    shorten_text: Callable[[str, int], str] = lambda text, _: text,
) -> list[str]:
    """Return texts, such as "lacks 4", on a bookie's missing and unexpected entries and its index's state.

    Args:
        ledger: The ledger.
        replica: The ledger's replica on the bookie.
        index_prefix: Text before the state of the index, such as "its index ".
        shorten_text: Function that shortens a list of entries, or a reason, to a number of characters.
    """
    view, fact_texts = replica.view, []
    if len(replica.missing):
        # The writer of a ledger that is not closed may still be sending them.
        lacks_label = "lacks" if ledger.state in (LedgerState.CLOSED, None) else "does not yet have"
        fact_texts.append(
            f"{lacks_label if view.known else 'unknown:'} {shorten_text(_entries_text(replica.missing), 240)}"
        )
    if len(replica.surplus):
        fact_texts.append(f"has unexpected entries: {shorten_text(_entries_text(replica.surplus), 240)}")
    if not view.known or view.state not in (IndexState.OK, IndexState.ABSENT):
        fact_texts.append(
            f"{index_prefix}is {view.state}{f': {shorten_text(view.reason, 120)}' if view.reason else ''}"
        )
    elif len(replica.expected) and view.state == IndexState.ABSENT:
        fact_texts.append("was read and has no index of this ledger")
    return fact_texts


MAX_LOGS = 20


def _log_lines(ledger: LedgerView, width: int) -> list[str]:
    """Return the lines on the ledger's entries that are in entry logs but not in the bookie's index."""
    lines = ["entries that are in entry logs, but not in the bookie's index"] if ledger.log_entries else []
    for entry_log in ledger.log_entries[:MAX_LOGS]:
        lines += _wrap_text(f"  {log_entries_text(entry_log)}", width, "    ")
    return lines + and_more(len(ledger.log_entries) - MAX_LOGS, " entry logs", "  ")


def log_entries_text(log: LogEntriesView) -> str:
    """Return a text on the entries of a ledger in one entry log.

    >>> log = LogEntriesView("bk1", 3, "/l/current/3.log", 400, reason="No such file or directory")
    >>> log_entries_text(log)
    'entry log 3 of bk1: 400 bytes of the ledger, entries not known: No such file or directory'
    """
    name = f"entry log {log.log_id} of {log.bookie_id}"
    if log.entries is None:
        reason = f": {log.reason}" if log.reason else ""
        return f"{name}: {log.size:,} bytes of the ledger, entries not known{reason}"
    lost_text = f", {log.lost_count:,} of them in no index" if log.lost_count else ""
    damage = f"; not read to its end: {log.reason}" if log.reason else ""
    return (
        f"{name}: {_entries_text(np.frombuffer(log.entries, GROUP))}, {log.size:,} bytes{lost_text}{damage}"
    )


_ANSWER_TEXTS = {
    WitnessAnswer.SERVED: "serves",
    WitnessAnswer.NO_SUCH_ENTRY: "does not have",
    WitnessAnswer.NO_SUCH_LEDGER: "does not have the ledger; requested:",
    WitnessAnswer.REFUSED: "refuses reads by this client; requested:",
    WitnessAnswer.UNKNOWN: "gave no clear answer about",
}


def _answer_lines(ledger: LedgerView, width: int) -> list[str]:
    """Return the lines on bookies' answers to reads of single entries."""
    lines = ["bookies' answers to reads of single entries"] if ledger.answers else []
    for answer in ledger.answers[:MAX_ROWS]:
        reason = f": {answer.reason}" if answer.reason else ""
        entry_text = _entries_text(np.frombuffer(answer.entries, GROUP))
        line = f"  {answer.bookie_id} {_ANSWER_TEXTS[answer.answer]} {entry_text}{reason}"
        lines += _wrap_text(line, width, "    ")
    return lines + and_more(len(ledger.answers) - MAX_ROWS, " answers", "  ")


def _entries_text(groups: Groups) -> str:
    group_tuples: list[Group] = [(first, last, size, period) for first, last, size, period in groups.tolist()]
    return entries_text(group_tuples, coverage.count(groups))


def _short_name(bookie_id: str) -> str:
    """Return a bookie id, shortened in the middle. The ends have the host name and the port, which differ."""
    if columns_of(bookie_id) <= MAX_LABEL_COLUMNS:
        return bookie_id
    return f"{bookie_id[: MAX_LABEL_COLUMNS - 9]}~{bookie_id[-8:]}"


def _time_text(time_ms: int | None) -> str:
    if time_ms is None:
        return "at an unknown time"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"at {time_ms} ms"
