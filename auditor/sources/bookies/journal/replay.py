"""A bookie's journals, as far as its directories say: where each lies, and from where it would be replayed.

No I/O happens here: the marks are those that were read when the directories were found, before any index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from auditor.sources.bookies.journal.last_marks import oldest_mark_time, replay_marks
from auditor.sources.bookies.paths import BookiePaths, OwnedDirectory


@dataclass(frozen=True, slots=True)
class JournalDirectory:
    """One journal of a bookie, the SHA-256 of the VERSION seen in it, and from where it is replayed."""

    path: str
    version_sha256: str
    mark_file_id: int
    mark_offset: int


@dataclass(frozen=True, slots=True)
class Journals:
    """The journals of a bookie in configured order, and what its lastMark files say of time, in ms.

    ``trouble`` says why what they hold cannot be known whole, None where it can. ``index_time`` is the moment
    from which on entries may be in the journals only. ``stopped`` is when the bookie wrote the last of its
    marks before it went down cleanly, with all it had in its index; None where it did not. ``marked`` is when
    the newest mark was written. ``unmarked`` are the ledger directories whose lastMark cannot be read, or is
    none: the bookie replays its journals from where another one says, or from their beginning.
    """

    directories: tuple[JournalDirectory, ...] = ()
    trouble: str | None = "none of its directories was found"
    index_time: int | None = None
    stopped: int | None = None
    marked: int | None = None
    unmarked: tuple[str, ...] = ()


NONE = Journals()


def journals_of(bookie_id: str, paths: BookiePaths, instance_id: str | None) -> Journals:
    """The journals of a bookie whose directories are matched; ``instance_id`` is the cluster's, if known."""
    found = [paths.found.get(path) for path in paths.ledger]
    marks = [dict(each.found.marks) if each is not None else {} for each in found]
    written = [each.found.marked_ms if each is not None else None for each in found]
    known = [at for at in written if at is not None]
    clean = bool(found) and all(
        each is not None and each.found.unclean is False and each.found.marks for each in found
    )
    troubles = list(_troubles(bookie_id, paths, instance_id))
    starts = replay_marks(marks, len(paths.journal))
    directories = (
        ()
        if troubles
        else tuple(
            JournalDirectory(owned.found.path, hashlib.sha256(owned.found.version or b"").hexdigest(), *mark)
            for owned, mark in zip((paths.found[path] for path in paths.journal), starts, strict=True)
        )
    )
    return Journals(
        directories=directories,
        trouble="; ".join(troubles) or None,
        index_time=oldest_mark_time(marks, len(paths.journal)) if paths.journal else None,
        stopped=min(known) if clean and len(known) == len(written) else None,
        marked=max(known, default=None),
        unmarked=tuple(
            each.found.path
            for each in found
            if each is not None and each.found.marked_ms is not None and not each.found.marks
        ),
    )


def _troubles(bookie_id: str, paths: BookiePaths, instance_id: str | None) -> Iterator[str]:
    if not paths.journal:
        yield "no VERSION names its journal directories"
    if paths.journals_differ:
        yield "its VERSIONs name different journal directories"
    for path in paths.ledger:
        # The greatest mark may be in the directory that is not there.
        if path not in paths.found:
            yield f"ledger directory {path}, which has a lastMark: {paths.reasons[path]}"
    for path in paths.journal:
        directory = paths.found.get(path)
        trouble = paths.reasons[path] if directory is None else _trouble(bookie_id, directory, instance_id)
        if trouble is not None:
            yield f"journal directory {path}: {trouble}"


def _trouble(bookie_id: str, directory: OwnedDirectory, instance_id: str | None) -> str | None:
    where, cookie = directory.found.path, directory.cookie
    if not directory.found.has_current:
        return f"{where} has no current/"
    if cookie is None:
        return f"{where} has no VERSION that can be read: {directory.damage}"
    if cookie.bookie_id != bookie_id:
        return f"the VERSION of {where} names {cookie.bookie_id}"
    if directory.place_id not in (None, bookie_id):
        return f"{where} lies in the place of {directory.place_id}"
    if None not in (instance_id, cookie.instance_id) and cookie.instance_id != instance_id:
        return f"the VERSION of {where} is of another cluster, {cookie.instance_id}"
    return None
