"""Which bookies' journals an audit would read from their marks on: listed, none opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from auditor.codecs.bookie.last_mark import LastMark
from auditor.model.amounts import plural, size
from auditor.reports.doctor import Line, State
from auditor.sources.bookies.journal.files import list_journals
from auditor.sources.bookies.owners import AttributedBookie

NAMED = 5
"""Bookies whose journals are named; more are counted."""


@dataclass(frozen=True)
class JournalLook:
    """What the listings of a bookie's journal directories say.

    ``reason`` is why they could not be read completely, None where they can, as far as listings tell.
    ``modified`` is when the newest file from the marks on was written, ms; ``below`` are the paths of those
    before the marks, and ``below_bytes`` how much they are.
    """

    reason: str | None
    modified: int | None = None
    below: tuple[str, ...] = ()
    below_bytes: int = 0


def look_at_journals(bookie: AttributedBookie) -> JournalLook:
    """List a bookie's journal directories, which lie on this machine."""
    if bookie.journals.trouble is not None:
        return JournalLook(bookie.journals.trouble)
    reasons, newest, below, below_bytes = [], 0, list[str](), 0
    for directory in bookie.journals.directories:
        mark = LastMark(directory.mark_file_id, directory.mark_offset)
        try:
            files = [(file.id, file.path, Path(file.path).stat()) for file in list_journals(directory.path)]
        except (OSError, ValueError) as error:
            reasons.append(f"{directory.path}: {error}")
            continue
        if mark.file_id > 0 and mark.file_id not in {file_id for file_id, _, _ in files}:
            reasons.append(f"{directory.path}: {mark.file_name}, which lastMark names, is not there")
        for file_id, path, state in files:
            if file_id < mark.file_id:
                below.append(path)
                below_bytes += state.st_size
            else:
                newest = max(newest, state.st_mtime_ns // 1_000_000)
    return JournalLook("; ".join(reasons) or None, newest or None, tuple(below), below_bytes)


def expected_index_time(bookie: AttributedBookie, look: JournalLook | None) -> int | None:
    """How new what an audit would know of a bookie is, ms, as far as listings tell; None: it is collected."""
    journals = bookie.journals
    if look is None or look.reason is None:
        times = (bookie.index_time, journals.marked, look.modified if look else None)
        return max((at for at in times if at is not None), default=None)
    return journals.stopped if journals.stopped is not None else bookie.index_time


def journal_lines(
    bookies: Mapping[str, AttributedBookie], looks: Mapping[str, JournalLook]
) -> Iterator[Line]:
    """What the listings of all bookies come to."""
    gone = {name: look.reason for name, look in looks.items() if look.reason is not None}
    stopped = [name for name in gone if bookies[name].journals.stopped is not None]
    torn = sorted(gone.keys() - set(stopped))
    whole = len(looks) - len(gone)
    if looks:
        said = f"of {whole:,} of {plural(len(looks), 'bookie')} there is all that follows the last mark"
        if stopped:
            said += f"; {len(stopped):,} went down cleanly, and all is in the index"
        yield Line("bookies", "journals", State.OK if not torn else State.WARN, said, _way_out(torn))
    for name in torn[:NAMED]:
        yield Line("bookies", "journal", State.WARN, f"{name}: {gone[name]}")
    if len(torn) > NAMED:
        yield Line("bookies", "journal", State.WARN, f"and {len(torn) - NAMED:,} more")
    kept = sum(len(look.below) for look in looks.values())
    if kept:
        taken = size(sum(look.below_bytes for look in looks.values()))
        yield Line(
            "bookies",
            "journals",
            State.OK,
            f"{plural(kept, 'journal file')} below the marks, {taken}, which prove nothing and are not read",
        )


def _way_out(torn: list[str]) -> str | None:
    if not torn:
        return None
    return (
        "name the journal directories of these bookies too: without them, what is missing of ledgers that "
        "changed after the last mark is only suspected"
    )
