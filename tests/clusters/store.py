"""The store of a living cluster, read in the simplest way, and damaged on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from tests.corpora.plain_readers import PlainLedger, read_metadata
from tests.servers.etcd import Etcd

ROOT = "/ledgers"
SCOPE = "/bk/living"
LEDGER = re.compile(r"/ledgers/(\d\d)/(\d{4})/L(\d{4})")
_HEADER = b"BookieMetadataFormatVersion\t3\n"
MARK = re.compile(r"/ledgers/underreplication/ledgers/.*/urL(\d{10})")


@dataclass(frozen=True)
class Snapshot:
    """The content of the store at one moment, or within the seconds of its reading.

    ``versions`` has every ledger. ``ledgers`` has those that can be decoded.
    """

    versions: dict[int, tuple[int, int]]
    ledgers: dict[int, PlainLedger]
    marks: frozenset[int]
    registered: frozenset[str]

    def closed(self) -> dict[int, int]:
        """Return the last entry of each closed ledger."""
        return {id: ledger.last for id, ledger in self.ledgers.items() if ledger.last is not None}


class Store:
    """A hierarchical ZooKeeper store, as a context manager."""

    def __init__(self, hosts: str) -> None:
        self.uri = f"zk+hierarchical://{hosts}/ledgers"
        self.client: Any = KazooClient(hosts, timeout=20)

    def __enter__(self) -> Self:
        self.client.start(timeout=30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.stop()
        self.client.close()

    def snapshot(self) -> Snapshot:
        versions: dict[int, tuple[int, int]] = {}
        ledgers: dict[int, PlainLedger] = {}
        marks = set()
        for path in self._paths(ROOT):
            if match := MARK.fullmatch(path):
                marks.add(int(match[1]))
            elif match := LEDGER.fullmatch(path):
                id = int("".join(match.groups()))
                try:
                    data, status = self.client.get(path)
                except NoNodeError:
                    continue  # deleted since it was listed
                versions[id] = (status.czxid, status.version)
                ledgers |= _read(id, data)
        return Snapshot(versions, ledgers, frozenset(marks), self.registered())

    def registered(self) -> frozenset[str]:
        """Return the bookies that are registered as writable or read-only."""
        names = set(self._children(f"{ROOT}/available"))
        return frozenset(names - {"readonly"} | set(self._children(f"{ROOT}/available/readonly")))

    def delete(self, path: str) -> None:
        self.client.delete(path)

    def put(self, path: str, value: bytes) -> None:
        """Replace the value of an existing znode."""
        self.client.set(path, value)

    @staticmethod
    def cookie(bookie: str) -> str:
        return f"{ROOT}/cookies/{bookie}"

    @staticmethod
    def path(ledger: int) -> str:
        digits = f"{ledger:010}"
        return f"{ROOT}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"

    def _paths(self, top: str) -> list[str]:
        paths, waiting = [], [top]
        while waiting:
            path = waiting.pop()
            below = [f"{path}/{name}" for name in self._children(path)]
            paths += below
            waiting += below
        return paths

    def _children(self, path: str) -> list[str]:
        try:
            names: list[str] = self.client.get_children(path)
        except NoNodeError:
            return []
        return names


def edit_metadata(store: Store, ledger: int, edit: Callable[[LedgerMetadataFormat], None]) -> None:
    """Change a ledger's metadata of format 3, as anyone with the store's client can."""
    data, status = store.client.get(store.path(ledger))
    assert data.startswith(_HEADER)
    size, start, shift = 0, len(_HEADER), 0
    while True:
        byte = data[start]
        size, start, shift = size | (byte & 127) << shift, start + 1, shift + 7
        if byte < 128:
            break
    record = LedgerMetadataFormat.FromString(data[start : start + size])
    edit(record)
    text = record.SerializeToString()
    length, remainder = b"", len(text)
    while remainder > 127:
        length, remainder = length + bytes([remainder & 127 | 128]), remainder >> 7
    store.client.set(store.path(ledger), _HEADER + length + bytes([remainder]) + text, status.version)


class EtcdStore:
    """The same store on etcd, which keeps no marks of under-replicated ledgers."""

    def __init__(self, member: Etcd) -> None:
        self._member = member
        self.uri = f"etcd://{member.host}{SCOPE}"

    def snapshot(self) -> Snapshot:
        rows = {_id(row.key): row for row in self._member.read(f"{SCOPE}/ledgers/")}
        versions = {id: (row.create_revision, row.version) for id, row in rows.items()}
        ledgers = {id: ledger for key, row in rows.items() for id, ledger in _read(key, row.value).items()}
        return Snapshot(versions, ledgers, frozenset(), self.registered())

    def registered(self) -> frozenset[str]:
        """Return the bookies that are registered as writable or read-only."""
        return frozenset(
            row.key.decode().rpartition("/")[2]
            for kind in ("writable", "readonly")
            for row in self._member.read(f"{SCOPE}/bookies/{kind}/")
        )

    def delete(self, path: str) -> None:
        self._member.delete(path)

    def put(self, path: str, value: bytes) -> None:
        self._member.load([(path, value)])

    @staticmethod
    def cookie(bookie: str) -> str:
        return f"{SCOPE}/cookies/{bookie}"

    @staticmethod
    def path(ledger: int) -> str:
        """Return the key of a ledger: a UUID with 64 bits of scope and 64 bits of id."""
        return f"{SCOPE}/ledgers/{UUID(int=ledger)}"


def _id(key: bytes) -> int:
    return UUID(key.decode().rpartition("/")[2]).int


def _read(id: int, value: bytes) -> dict[int, PlainLedger]:
    """Return a ledger by its id, or nothing if its metadata was damaged on purpose."""
    try:
        return {id: read_metadata(value)}
    except (ValueError, KeyError, IndexError, StopIteration):
        return {}
