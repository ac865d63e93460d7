"""What a bookie says it is, and where it says its data is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's cookie, as the metadata store and each of its directories keep it (Java: ``Cookie``).

    ``journal_dirs`` is the server's one string, paths joined by commas; the other lists are in configured
    order. ``index_dirs`` and ``instance_id`` are None where the cookie has none, or an empty one.

    >>> Cookie(5, "bk1:3181", "/j1,/j2", ("/l1",)).journal_paths
    ('/j1', '/j2')
    """

    layout: int
    bookie_id: str
    journal_dirs: str
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] | None = None
    instance_id: str | None = None

    @property
    def journal_paths(self) -> tuple[str, ...]:
        """The journal directories, in configured order."""
        return tuple(self.journal_dirs.split(","))
