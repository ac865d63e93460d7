"""A watch that uses Oxia's notifications to report which records changed while the ledgers were read.

A shard sends one notification for each write in its log. When the watch starts, it records the offset of
each shard's log. At the end, it requests all notifications since that offset. Offsets have no gaps. So the
client notices if the server no longer keeps a notification. Notifications can be switched off for a
namespace.
"""

from __future__ import annotations

from auditor.errors import StoreError
from auditor.sources.metadata.oxia.client import OxiaClient, ShardRange
from auditor.sources.metadata.store import LedgerChanges, Tree, tree_of

MAX_CHANGED_PATHS = 500_000
"""Largest number of writes to request from a shard, and of changed paths to keep.

With more, the caller reads all ledgers again.
"""


class NotificationWatch:
    """A watch of all ledgers below ``root``. It starts when the object is created."""

    def __init__(self, client: OxiaClient, root: str) -> None:
        self._client = client
        self._path_prefix = f"{root}/"
        self._offsets: dict[ShardRange, int] = {}
        self._unknown_reason: str | None = None
        try:
            self._offsets = {shard: client.log_offset(shard) for shard in client.shards()}
        except StoreError as error:
            self._unknown_reason = f"the ledgers could not be watched: {error}"

    def changed_ledgers(self) -> LedgerChanges:
        """Return the ledger paths that changed since the watch started.

        The result includes all changes before this call, and possibly some later ones.
        """
        if self._unknown_reason is not None:
            return LedgerChanges((), self._unknown_reason)
        try:
            return LedgerChanges(tuple(sorted(self._changed_paths())))
        except StoreError as error:
            return LedgerChanges((), f"some changes are unknown: {error}")

    def _changed_paths(self) -> set[str]:
        """Return the paths in the ledger tree that were written since the watch started.

        Raises:
            StoreError: a shard does not report all writes, or there were too many writes.
        """
        changed_paths: set[str] = set()
        if set(self._client.renew_assignments()) != set(self._offsets):
            raise StoreError("the shards of the namespace changed")
        for shard, start_offset in self._offsets.items():
            end_offset = self._client.log_offset(shard)
            if end_offset < start_offset:
                raise StoreError(f"the log of shard {shard.number} is shorter than before")
            if end_offset - start_offset > MAX_CHANGED_PATHS:
                raise StoreError(f"there were more than {MAX_CHANGED_PATHS:,} writes to shard {shard.number}")
            for write in self._client.changes(shard, start_offset, end_offset):
                if write.deletes_range:
                    raise StoreError("a range of records was deleted, and Oxia does not say which records")
                changed_paths.update(path for path in write.paths if self._is_ledger(path))
            if len(changed_paths) > MAX_CHANGED_PATHS:
                raise StoreError(
                    f"more than {MAX_CHANGED_PATHS:,} ledger records changed since the first scan"
                )
        return changed_paths

    def _is_ledger(self, path: str) -> bool:
        return path.startswith(self._path_prefix) and tree_of(path[len(self._path_prefix) :]) is Tree.LEDGERS
