"""Plain readers of the metadata stores of live clusters, which also show whether a client wrote to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from kazoo.client import KazooClient

from auditor.codecs.zookeeper.txnlog import CloseSession, Transaction, read_log
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from tests.corpora.plain_readers import ledger_znodes
from tests.servers import etcd, oxia

ETCD, OXIA = "etcd", "oxia"
SCOPE = "/bk/live"


class Metadata(Protocol):
    """A running store. ``position`` is its newest transaction: a zxid or a revision."""

    @property
    def uri(self) -> str: ...

    def position(self) -> int: ...

    def ledgers(self) -> dict[int, bytes]: ...

    def registered(self, bookie: str) -> bool: ...

    def writes_after(self, position: int) -> list[Any]: ...


@contextmanager
def metadata_store(layout: str, root: Path) -> Iterator[Metadata]:
    """Yield a new server: etcd, Oxia, or ZooKeeper for a cluster of this layout."""
    if layout == ETCD:
        with etcd.running(root / "etcd") as member:
            yield InEtcd(member)
    elif layout == OXIA:
        with oxia.running(root / "oxia", shards=2) as server:
            yield InOxia(server)
    else:
        with EmbeddedZooKeeper(root / "zookeeper") as server:
            yield InZooKeeper(server, layout)


class InZooKeeper:
    def __init__(self, server: EmbeddedZooKeeper, layout: str) -> None:
        self._server = server
        self.uri = f"zk+{layout}://{server.hosts}/ledgers"

    def position(self) -> int:
        return max(transaction.zxid for transaction in self._transactions())

    def ledgers(self) -> dict[int, bytes]:
        client = KazooClient(hosts=self._server.hosts)
        client.start()
        znodes: dict[str, dict[str, Any]] = {}
        waiting = ["/ledgers"]
        while waiting:
            path = waiting.pop()
            znodes[path] = {"data": client.get(path)[0]}
            waiting += [f"{path}/{name}" for name in client.get_children(path)]
        client.stop()
        client.close()
        return ledger_znodes(znodes)

    def registered(self, bookie: str) -> bool:
        client = KazooClient(hosts=self._server.hosts)
        client.start()
        is_registered = client.exists(f"/ledgers/available/{bookie}") is not None
        client.stop()
        client.close()
        return is_registered

    def writes_after(self, position: int) -> list[Any]:
        """Return writes. A read-only session's begin and end, with no path in either, do not count."""
        done = [
            operation
            for transaction in self._transactions()
            if transaction.zxid > position
            for operation in transaction.operations
        ]
        return [write for write in done if not isinstance(write, CloseSession) or write.paths]

    def _transactions(self) -> list[Transaction]:
        logs = sorted(self._server.data_dir.glob("version-2/log.*"))
        records = [record for log in logs for record in read_log(memoryview(log.read_bytes()))]
        return [record for record in records if isinstance(record, Transaction)]


class InEtcd:
    def __init__(self, member: etcd.Etcd) -> None:
        self._member = member
        self.uri = f"etcd://{member.host}{SCOPE}"

    def position(self) -> int:
        return self._member.revision()

    def ledgers(self) -> dict[int, bytes]:
        """Return ledgers by id. Their keys end in a UUID: 64 bits of scope, 64 bits of id."""
        rows = self._member.read(f"{SCOPE}/ledgers/")
        return {int(row.key.decode()[-36:].replace("-", ""), 16): row.value for row in rows}

    def registered(self, bookie: str) -> bool:
        return bool(self._member.ctl("get", f"{SCOPE}/bookies/writable/{bookie}", "--keys-only").strip())

    def writes_after(self, position: int) -> list[Any]:
        """Return a number per write: in etcd every write, and nothing else, makes a revision."""
        return list(range(position, self.position()))


class InOxia:
    """An Oxia store. Its server writes nothing by itself: each entry of a shard's log is a client's."""

    def __init__(self, server: oxia.Oxia) -> None:
        self._server = server
        self.uri = server.uri

    def position(self) -> int:
        return sum(self._server.offsets().values())

    def ledgers(self) -> dict[int, bytes]:
        return ledger_znodes({path: {"data": value} for path, value in self._server.read("/ledgers").items()})

    def registered(self, bookie: str) -> bool:
        return f"/ledgers/available/{bookie}" in self._server.read("/ledgers/available")

    def writes_after(self, position: int) -> list[Any]:
        return list(range(position, self.position()))
