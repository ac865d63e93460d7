r"""BookKeeper's records below ``underreplication``: marks, locks, votes, and times of its auditor's checks.

    ledgers/hhhh/hhhh/hhhh/hhhh/urL<id>    replica: "bk1:3181"\nctime: 1795237164639\n     protobuf text
    locks/urL<id>                          bookieId: "host-a"\n                            protobuf text
    auditorelection, auditorelection/V_*   bookieId: "bk1:3181"\n                          protobuf text
    LAYOUT                                 type: "BASIC"\nversion: 1\n                     protobuf text
    checkallledgersctime, placementpolicycheckctime, replicascheckctime                    protobuf, binary

Times are in ms since the epoch. A time is None if its record contains no time.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message

from auditor.codecs.protobuf import text as proto_text
from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.underreplication_pb2 import (
    AuditorVoteFormat,
    CheckAllLedgersFormat,
    LedgerRereplicationLayoutFormat,
    LockDataFormat,
    PlacementPolicyCheckFormat,
    ReplicasCheckFormat,
    UnderreplicatedLedgerFormat,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of an under-replicated ledger: the bookies whose copies are missing, and the time of marking.

    A mark without replicas requests better placement of the copies. It does not mean that copies are
    missing.
    """

    replicas: tuple[str, ...]
    ctime: int | None


@dataclass(frozen=True, slots=True)
class ReplicationLayout:
    """The format of the under-replication marks. The only format is ``BASIC``, version 1."""

    type: str
    version: int


def decode_mark(data: bytes) -> Mark:
    r"""Read the under-replication mark of a ledger. Raises `DecodeError` if it is damaged.

    >>> decode_mark(b'replica: "bk1:3181"\nctime: 1795237164639\n')
    Mark(replicas=('bk1:3181',), ctime=1795237164639)
    """
    message = proto_text.parse(UnderreplicatedLedgerFormat, data, "mark")
    return Mark(tuple(message.replica), message.ctime if message.HasField("ctime") else None)


def decode_lock(data: bytes) -> str | None:
    """Return the host of the replication worker that holds a lock, or None if the lock names no host.

    Raises `DecodeError` if the lock is damaged.

    >>> decode_lock(b'bookieId: "host-a"')
    'host-a'
    """
    return proto_text.parse(LockDataFormat, data, "lock").bookieId or None


def decode_vote(data: bytes) -> str | None:
    """Return the bookie that cast a vote in the auditor's election. Return None if the vote names no bookie.

    The bookie with the lowest vote is BookKeeper's auditor. Raises `DecodeError` if the vote is damaged.

    >>> decode_vote(b'bookieId: "bk1:3181"')
    'bk1:3181'
    """
    return proto_text.parse(AuditorVoteFormat, data, "auditor vote").bookieId or None


def decode_layout(data: bytes) -> ReplicationLayout:
    """Read the format of the under-replication marks. Raises `DecodeError` if it is damaged.

    >>> decode_layout(b'type: "BASIC" version: 1')
    ReplicationLayout(type='BASIC', version=1)
    """
    message = proto_text.parse(LedgerRereplicationLayoutFormat, data, "replication layout")
    return ReplicationLayout(message.type, message.version)


def _check_time(kind: type[Message], data: bytes) -> int | None:
    """Return the time in a record, or None if it contains no time. The time is the record's only field."""
    message = proto_wire.parse(kind, data, "check time")
    return next((time for _, time in message.ListFields()), None)


def decode_check_all_ledgers_time(data: bytes) -> int | None:
    """Return when BookKeeper's auditor last checked all ledgers, in ms, or None if the record has no time.

    Raises `DecodeError` if the record is damaged.

    >>> decode_check_all_ledgers_time(bytes.fromhex("088080babbc82e"))
    1600000000000
    """
    return _check_time(CheckAllLedgersFormat, data)


def decode_placement_policy_check_time(data: bytes) -> int | None:
    """Return when BookKeeper's auditor last checked placement, in ms, or None if the record has no time.

    Raises `DecodeError` if the record is damaged.

    >>> decode_placement_policy_check_time(b"") is None
    True
    """
    return _check_time(PlacementPolicyCheckFormat, data)


def decode_replicas_check_time(data: bytes) -> int | None:
    """Return when BookKeeper's auditor last checked replicas, in ms, or None if the record has no time.

    Raises `DecodeError` if the record is damaged.

    >>> decode_replicas_check_time(bytes.fromhex("088080babbc82e"))
    1600000000000
    """
    return _check_time(ReplicasCheckFormat, data)
