"""The ZooKeeper of a living cluster, looked at in the plainest way, and damaged on purpose."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.corpora.plain_readers import PlainLedger, read_metadata

ROOT = "/ledgers"
LEDGER = re.compile(r"/ledgers/(\d\d)/(\d{4})/L(\d{4})")
MARK = re.compile(r"/ledgers/underreplication/ledgers/.*/urL(\d{10})")


@dataclass(frozen=True)
class Snapshot:
    """What the store had at one moment, or within the seconds of its reading.

    ``versions``: of every ledger; ``ledgers``: those that can be decoded.
    """

    versions: dict[int, tuple[int, int]]
    ledgers: dict[int, PlainLedger]
    marks: frozenset[int]
    registered: frozenset[str]

    def closed(self) -> dict[int, int]:
        """The last entry of each closed ledger."""
        return {id: ledger.last for id, ledger in self.ledgers.items() if ledger.last is not None}


class Store:
    """A hierarchical ZooKeeper store; a context manager."""

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
            if found := MARK.fullmatch(path):
                marks.add(int(found[1]))
            elif found := LEDGER.fullmatch(path):
                id = int("".join(found.groups()))
                try:
                    data, status = self.client.get(path)
                except NoNodeError:
                    continue  # deleted since it was listed
                versions[id] = (status.czxid, status.version)
                try:
                    ledgers[id] = read_metadata(data)
                except (ValueError, KeyError, IndexError, StopIteration):
                    continue  # damaged on purpose
        return Snapshot(versions, ledgers, frozenset(marks), self.registered())

    def registered(self) -> frozenset[str]:
        """Bookies that are registered as writable or read-only."""
        names = set(self._children(f"{ROOT}/available"))
        return frozenset(names - {"readonly"} | set(self._children(f"{ROOT}/available/readonly")))

    @staticmethod
    def path(ledger: int) -> str:
        digits = f"{ledger:010}"
        return f"{ROOT}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"

    def _paths(self, top: str) -> list[str]:
        found, waiting = [], [top]
        while waiting:
            path = waiting.pop()
            below = [f"{path}/{name}" for name in self._children(path)]
            found += below
            waiting += below
        return found

    def _children(self, path: str) -> list[str]:
        try:
            names: list[str] = self.client.get_children(path)
        except NoNodeError:
            return []
        return names
