"""What the transaction logs did after a snapshot was begun.

Snapshots are fuzzy: written while the server goes on, they can already hold effects of later transactions.
A znode that is newer than an operation on it has that behind it and is left as it is; so is one that a create
finds there; and a delete or change of what does not exist does nothing. ZooKeeper is as tolerant
(``DataTree.processTxn``), but applies older changes again: where a session's end has no list of paths (before
3.6) and another znode took an ephemeral one's place, that leaves old bytes behind, and this does not.

Only znodes below the root are followed, in as many transactions as a server makes between two snapshots.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from auditor.codecs.zookeeper.txnlog import (
    CloseSession,
    Create,
    CutTail,
    Delete,
    Operation,
    Transaction,
    read_log,
)
from auditor.errors import DecodeError, StoreError
from auditor.sources.metadata.store import Znode
from auditor.sources.metadata.zookeeper.files import ZxidFile, map_file

OPERATION_LIMIT = 5_000_000
"""Operations to replay. A server begins a new snapshot after some 100,000 transactions (snapCount)."""

_EPOCH_BITS = 32


@dataclass(slots=True)
class Replay:
    """The operations below a root after a zxid, and what is wrong with the logs that they come from.

    ``zxid`` is the last transaction's. ``missing`` says why transactions may be missing among them; it is
    empty if they follow each other without a hole. ``notes`` are worth knowing and harm nothing.
    """

    zxid: int
    operations: list[tuple[int, int, Operation]] = field(default_factory=list)  # zxid, time, what
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    beside: set[str] = field(default_factory=set)  # names of znodes that were made beside the root

    def paths(self) -> set[str]:
        """Every path that an operation names."""
        paths = {what.path for _, _, what in self.operations if not isinstance(what, CloseSession)}
        return paths.union(*(what.paths for _, _, what in self.operations if isinstance(what, CloseSession)))

    def new_children(self) -> Counter[str]:
        """How many children were made below each path, at most: a fuzzy snapshot may have some already."""
        creates = (what.path for _, _, what in self.operations if isinstance(what, Create))
        return Counter(path.rpartition("/")[0] for path in creates)

    def apply(self, base: dict[str, Znode]) -> dict[str, Znode | None]:
        """The touched znodes as they are in the end, None for one that is gone.

        ``base`` holds what the snapshot has of the touched paths, and every ephemeral znode.
        """
        state: dict[str, Znode | None] = dict(base)
        owned: defaultdict[int, set[str]] = defaultdict(set)
        for znode in base.values():
            if znode.ephemeral_owner:
                owned[znode.ephemeral_owner].add(znode.path)
        for zxid, time, what in self.operations:
            if isinstance(what, CloseSession):
                # Its paths are in the record (3.6 and later) or known from its znodes; ZooKeeper takes both.
                for path in owned.pop(what.session, set()).union(what.paths):
                    if (there := state.get(path)) is None or there.mzxid <= zxid:
                        state[path] = None
                continue
            there = state.get(what.path)
            if isinstance(what, Create):
                if there is None:
                    state[what.path] = Znode(what.path, what.data, zxid, zxid, time, time, 0, what.owner)
                    if what.owner:
                        owned[what.owner].add(what.path)
            elif there is not None and there.mzxid <= zxid:
                if isinstance(what, Delete):
                    owned[there.ephemeral_owner].discard(what.path)
                    state[what.path] = None
                else:
                    state[what.path] = there._replace(
                        data=what.data, version=what.version, mzxid=zxid, mtime=time
                    )
        return state


def read_logs(logs: Iterable[ZxidFile], after: int, root: str) -> Replay:
    """Read, from logs in ascending order, the operations below ``root`` of transactions after a zxid.

    Raises:
        StoreError: more operations than can be replayed here, or a log that cannot be opened.
    """
    replay = Replay(after)
    logs = list(logs)
    older = [log for log in logs if log.zxid <= after]
    for log in older[-1:] + [log for log in logs if log.zxid > after]:
        try:
            with map_file(log.path) as data:
                for item in read_log(data):
                    if isinstance(item, CutTail):
                        replay.notes.append(f"{log.path.name} ends at byte {item.offset}: {item.reason}")
                    elif item.zxid > replay.zxid:  # a transaction can be in two logs
                        _add(replay, item, root, log)
        except DecodeError as damage:
            replay.missing.append(f"{log.path.name}: {damage}")
    return replay


def _add(replay: Replay, transaction: Transaction, root: str, log: ZxidFile) -> None:
    zxid = transaction.zxid
    # Within an epoch zxids have no holes; a new epoch begins anew, at 1.
    if zxid >> _EPOCH_BITS == replay.zxid >> _EPOCH_BITS and zxid != replay.zxid + 1:
        replay.missing.append(
            f"{log.path.name}: transactions {replay.zxid + 1:#x} to {zxid - 1:#x} are missing"
        )
    replay.zxid = zxid
    for what in transaction.operations:
        if _concerns(what, root):
            replay.operations.append((zxid, transaction.time, what))
        elif isinstance(what, Create) and what.path.rpartition("/")[0] == root.rpartition("/")[0]:
            replay.beside.add(what.path.rpartition("/")[2])
    if len(replay.operations) > OPERATION_LIMIT:
        raise StoreError(
            f"more than {OPERATION_LIMIT} operations to replay up to {log.path}; "
            "take a newer snapshot of the server along"
        )


def _concerns(what: Operation, root: str) -> bool:
    return isinstance(what, CloseSession) or what.path == root or what.path.startswith(root + "/")
