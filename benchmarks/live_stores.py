"""The second scan of a running store, once for only the changed ledgers and once for all ledgers.

A server on loopback is loaded with ledgers and read. Then one ledger in a hundred is changed or created
again, and some are deleted. One way reads all ledgers again. The other way reads only the ledgers that the
store reports as changed. It takes the rest from the first scan's Parquet file. Both ways must give the
same rows. No Spark runs.

Other lines measure requests that ZooKeeper also offers. `exists` cannot be part of a multiRead. Therefore
kazoo sends it, or this module encodes it so that one write to the socket carries many requests. A list of
children does not show whether a ledger changed.

``python -m benchmarks.live_stores 1000000`` measures a million ledgers. Ten million ledgers need half an
hour to load, and 40 GB.
"""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kazoo.client import KazooClient

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind, to_path
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.earlier_ledgers import find_ledgers
from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.ledger_rows import LEDGERS, REREAD_LEDGERS, ledger_rows
from auditor.sources.metadata.store import MetadataStore, Part, StoreOptions, Tree, Znode
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.zookeeper.live import ZooKeeperStore
from benchmarks import ledger_records as made
from benchmarks.costs import Cost, CountingPort, least_costs, measure_processes
from benchmarks.measure import ROUNDS, Line
from benchmarks.results import as_text
from tests.servers.etcd import Etcd, running

LEDGER_COUNT = 100_000
SAMPLE_LEDGER_COUNT = 20_000
MAX_REQUESTS_IN_FLIGHT = 400
PART_COUNT = 4
LEDGERS_PER_CHANGE = 100
"""One ledger in this many changes between the scans."""
DELETED_LEDGER_COUNT = 10
"""Number of ledgers deleted in one bucket of etcd. The program lists the keys around them."""
ROOT_PATH = "/bk"
UNLIMITED_OPTIONS, DEFAULT_OPTIONS = StoreOptions(rate_limit=0), StoreOptions()

OpenStore = Callable[[str, StoreOptions], MetadataStore]
SecondScan = Callable[[MetadataStore, Path], pa.Table]


def lines(count: int = LEDGER_COUNT) -> Iterator[Line]:
    """Yield lines for ZooKeeper, for ZooKeeper's other requests, and for etcd."""
    encoded_records = [
        made.encode_binary(message) for message in made.make_messages(min(count, LEDGER_COUNT))
    ]
    java_heap_size = f"{512 + count // 700}m"
    with tempfile.TemporaryDirectory() as folder:
        with EmbeddedZooKeeper(Path(folder, "zookeeper"), heap=java_heap_size) as server:
            paths = [f"{made.ROOT}/{to_path(made.LAYOUT, ledger)}" for ledger in range(count)]
            server.load(
                Znode(path, znode_data, *[0] * 6) for path, znode_data in zip(paths, cycle(encoded_records))
            )
            yield from _ZooKeeperScans(server, paths, encoded_records, Path(folder)).lines()
            yield from _measure_other_requests(server, paths[:: max(1, count // SAMPLE_LEDGER_COUNT)])
        # Ten million ledgers take 6 GB. The default quota of etcd is 2 GB.
        with running(Path(folder, "etcd"), flags=["--quota-backend-bytes", str(16 << 30)]) as etcd_member:
            etcd_keys = [f"{ROOT_PATH}/{etcd.to_path(LedgerId(number))}" for number in etcd_ids(count)]
            etcd_member.load([(f"{ROOT_PATH}/layout", b""), *zip(etcd_keys, cycle(encoded_records))])
            yield from _EtcdScans(etcd_member, etcd_keys, encoded_records, Path(folder)).lines()


def etcd_ids(count: int) -> Iterator[int]:
    """Yield ledger ids in all of etcd's buckets, as BookKeeper's id generator assigns them."""
    return ((number % etcd.BUCKET_COUNT << 56) + number // etcd.BUCKET_COUNT + 1 for number in range(count))


class _Scans:
    """Two scans of one store. The second scan reads all ledgers or only the changed ones.

    ``pid`` is the server's process, ``hosts`` is its address, and ``count`` is the number of ledgers.
    """

    name: str
    layout: LayoutKind
    pid: int
    hosts: str
    count: int

    def __init__(self, folder: Path) -> None:
        self._table_file = folder / "ledgers.parquet"
        self._round_number = 0

    def lines(self) -> Iterator[Line]:
        """Yield lines by processor time, by elapsed time, and by elapsed time at the default rate limit.

        The notes contain the numbers of bytes that were sent.
        """
        changed_costs, full_costs = self._measure_costs(UNLIMITED_OPTIONS, ROUNDS)
        limited_changed_costs, limited_full_costs = self._measure_costs(DEFAULT_OPTIONS, 1)
        with CountingPort(self.hosts) as port:
            changed_traffic = self._scan_twice(self._changed_scan, UNLIMITED_OPTIONS, port)
            full_traffic = self._scan_twice(self._full_scan, UNLIMITED_OPTIONS, port)
        sent_note = f"{changed_traffic[1].bytes:,} bytes over the wire, of all {full_traffic[1].bytes:,}"
        for cost_kind, own_seconds, full_seconds, note in (
            ("our processor time", *_costs_of_kind(changed_costs, full_costs, "client"), sent_note),
            ("the server's processor time", *_costs_of_kind(changed_costs, full_costs, "server"), ""),
            ("by the clock", *_costs_of_kind(changed_costs, full_costs, "clock"), ""),
            (
                f"by the clock, {DEFAULT_OPTIONS.rate_limit:,.0f}/s",
                *_costs_of_kind(limited_changed_costs, limited_full_costs, "clock"),
                "",
            ),
        ):
            yield self._make_line(
                f"{self.name}, second scan, {cost_kind}", own_seconds[1], full_seconds[1], note
            )
            yield self._make_line(
                f"{self.name}, both scans, {cost_kind}", sum(own_seconds), sum(full_seconds), ""
            )

    def _make_line(self, stage: str, own_seconds: float, rival_seconds: float, note: str) -> Line:
        own_seconds = max(own_seconds, 0.01)  # /proc counts processor time in units of 0.01 s
        return Line(
            stage, self.count, "ledgers", own_seconds, "all read twice", self.count, rival_seconds, note=note
        )

    def _measure_costs(self, options: StoreOptions, rounds: int) -> tuple[list[Cost], list[Cost]]:
        """Make both scans twice in each round: the second scan reads first the changed ledgers, then all.

        Returns the least costs of the two scans, first for changed ledgers, then for all ledgers.
        """
        costs_of_variants: list[list[list[Cost]]] = [[], []]
        for _ in range(rounds):
            for variant, second_scan in enumerate((self._changed_scan, self._full_scan)):
                costs_of_variants[variant].append(self._scan_twice(second_scan, options))
        return least_costs(costs_of_variants[0]), least_costs(costs_of_variants[1])

    def _scan_twice(
        self, second_scan: SecondScan, options: StoreOptions, port: CountingPort | None = None
    ) -> list[Cost]:
        store = self.open(port.hosts if port else self.hosts, options)
        first_table, first_cost = measure_processes(
            lambda: self._first_scan(store, second_scan), self.pid, port
        )
        pq.write_table(first_table, self._table_file, write_page_checksum=True)
        self._round_number += 1
        self.change(self._round_number)
        second_table, second_cost = measure_processes(
            lambda: second_scan(store, self._table_file), self.pid, port
        )
        if _comparable_rows(second_table) != _comparable_rows(self._full_scan(store, self._table_file)):
            sys.exit(f"{self.name}: not the rows of a full scan")
        store.close()
        return [first_cost, second_cost]

    def _first_scan(self, store: MetadataStore, second_scan: SecondScan) -> pa.Table:
        store.cluster()
        if second_scan == self._changed_scan and isinstance(store, ZooKeeperStore):
            store.watch_ledgers()
        return self.read_rows(store, store.parts(Tree.LEDGERS, self.layout, PART_COUNT), LEDGERS)

    def _full_scan(self, store: MetadataStore, earlier: Path) -> pa.Table:
        store.cluster()
        return self.read_rows(store, store.parts(Tree.LEDGERS, self.layout, PART_COUNT), REREAD_LEDGERS)

    def _changed_scan(self, store: MetadataStore, earlier: Path) -> pa.Table:
        store.cluster()
        return self.read_changes(store, earlier)

    def read_rows(self, store: MetadataStore, parts: Sequence[Part], columns: pa.Schema) -> pa.Table:
        batches = (
            ledger_rows(batch, store.root, self.layout, columns)
            for part in parts
            for batch in store.read(part)
        )
        return pa.Table.from_batches(batches, columns)

    def open(self, hosts: str, options: StoreOptions) -> MetadataStore:
        raise NotImplementedError

    def change(self, number: int) -> None:
        raise NotImplementedError

    def read_changes(self, store: MetadataStore, earlier: Path) -> pa.Table:
        raise NotImplementedError


class _ZooKeeperScans(_Scans):
    name = "live ZooKeeper"
    layout = made.LAYOUT

    def __init__(
        self, server: EmbeddedZooKeeper, paths: list[str], encoded_records: list[bytes], folder: Path
    ) -> None:
        super().__init__(folder)
        self.pid, self.hosts, self.count = server.pid, server.hosts, len(paths)
        self._paths, self._records = paths, encoded_records
        self._client: Any = KazooClient(hosts=server.hosts)

    def lines(self) -> Iterator[Line]:
        self._client.start()
        yield from super().lines()
        self._client.stop()
        self._client.close()

    def open(self, hosts: str, options: StoreOptions) -> MetadataStore:
        return open_store(f"zk://{hosts}{made.ROOT}", options)

    def change(self, number: int) -> None:
        changed_paths = self._paths[number % LEDGERS_PER_CHANGE :: LEDGERS_PER_CHANGE]
        transaction = self._client.transaction()
        for path_number, path in enumerate(changed_paths):
            if path_number % 10 == 0:  # delete it and create it again
                transaction.delete(path)
                transaction.create(path, self._records[0])
            else:
                transaction.set_data(path, self._records[(path_number + number) % len(self._records)])
            if len(transaction.operations) > 500 or path_number == len(changed_paths) - 1:
                transaction.commit()
                transaction = self._client.transaction()

    def read_changes(self, store: MetadataStore, earlier: Path) -> pa.Table:
        assert isinstance(store, ZooKeeperStore)
        ledger_changes = store.changed_ledgers()
        if ledger_changes.unknown_reason:
            sys.exit(f"{self.name}: {ledger_changes.unknown_reason}")
        first_ledger = pq.read_table(earlier, columns=REREAD_LEDGERS.names)
        unchanged_rows = first_ledger.filter(
            pc.invert(pc.is_in(first_ledger["path"], pa.array(ledger_changes.paths, pa.string())))
        )
        changed_rows = self.read_rows(
            store, store.parts_of_paths(ledger_changes.paths, PART_COUNT), REREAD_LEDGERS
        )
        return pa.concat_tables([unchanged_rows, changed_rows])


class _EtcdScans(_Scans):
    name = "live etcd"
    layout = LayoutKind.ETCD

    def __init__(
        self, server: Etcd, etcd_keys: list[str], encoded_records: list[bytes], folder: Path
    ) -> None:
        super().__init__(folder)
        self.pid, self.hosts, self.count = server.pid, server.host, len(etcd_keys)
        self._server, self._keys, self._records = server, etcd_keys, encoded_records

    def open(self, hosts: str, options: StoreOptions) -> MetadataStore:
        return open_store(f"etcd://{hosts}{ROOT_PATH}", options)

    def change(self, number: int) -> None:
        changed_paths = self._keys[number % LEDGERS_PER_CHANGE :: LEDGERS_PER_CHANGE]
        for path in self._keys[number :: etcd.BUCKET_COUNT][:DELETED_LEDGER_COUNT]:
            self._server.delete(path)
        self._server.load(list(zip(changed_paths, islice(cycle(self._records), number, None), strict=False)))

    def read_changes(self, store: MetadataStore, earlier: Path) -> pa.Table:
        assert isinstance(store, EtcdStore)
        earlier_ledgers = find_ledgers(str(earlier.parent), [earlier.name])
        parts = store.parts_since(earlier_ledgers, PART_COUNT)
        batches = [rows for part in parts for rows in store.rows_since(part, REREAD_LEDGERS)]
        return pa.Table.from_batches(batches, REREAD_LEDGERS)


def _costs_of_kind(
    changed_costs: list[Cost], full_costs: list[Cost], cost_kind: str
) -> tuple[list[float], list[float]]:
    return [getattr(cost, cost_kind) for cost in changed_costs], [
        getattr(cost, cost_kind) for cost in full_costs
    ]


def _comparable_rows(table: pa.Table) -> pa.Table:
    """Return the rows in a fixed order, without the columns that differ between etcd's scans."""
    return table.drop_columns(["mtime", "reused"]).sort_by("path").combine_chunks()


def _measure_other_requests(server: EmbeddedZooKeeper, paths: list[str]) -> Iterator[Line]:
    """Yield lines for ZooKeeper's other requests, by processor time of this process and the server."""
    store = open_store(f"zk://{server.hosts}{made.ROOT}", UNLIMITED_OPTIONS)
    assert isinstance(store, ZooKeeperStore)
    parts = store.parts_of_paths(paths, 1)
    client = KazooClient(hosts=server.hosts)
    client.start()
    parents = sorted({path.rpartition("/")[0] for path in paths})

    def measure_seconds(run: Callable[[], object]) -> float:
        _, cost = measure_processes(run, server.pid, None)
        return cost.client + cost.server

    def data() -> object:
        return [batch for part in parts for batch in store.read(part)]

    runs: dict[str, Callable[[], object]] = {
        "exists, kazoo": lambda: _send_pipelined(client.exists_async, paths),
        "exists, packed by hand": lambda: _send_exists_requests(server.port, paths),
        "lists of children": lambda: client_lists(client, parents),
    }
    data()  # the first connection also asks which requests the server supports
    for stage, run in runs.items():
        seconds = min(measure_seconds(run) for _ in range(ROUNDS))
        rival_seconds = min(measure_seconds(data) for _ in range(ROUNDS))
        yield Line(
            f"{stage}, processor time of both sides",
            len(paths),
            "znodes",
            seconds,
            "data by multiRead",
            len(paths),
            rival_seconds,
        )
    client.stop()
    client.close()
    store.close()


def client_lists(client: Any, parents: Sequence[str]) -> object:
    """List the children of each znode in ``parents``."""
    return _send_pipelined(client.get_children_async, parents)


def _send_pipelined(send_request: Callable[[str], Any], paths: Sequence[str]) -> int:
    pending_answers: deque[Any] = deque()
    for path in paths:
        if len(pending_answers) >= MAX_REQUESTS_IN_FLIGHT:
            pending_answers.popleft().get()
        pending_answers.append(send_request(path))
    for answer in pending_answers:
        answer.get()
    return len(paths)


def _send_exists_requests(port: int, paths: Sequence[str]) -> int:
    """Send `exists` for many paths in one write and read their stats; return the number of existing paths.

    The function uses no client library, so that its cost is the least possible.
    """
    with socket.create_connection(("127.0.0.1", port)) as server, server.makefile("rb") as answers:
        # A ConnectRequest: its length, version 0, last zxid 0, a timeout of 10,000 ms, a new session, its
        # password, and the flag for read-only servers.
        server.sendall(struct.pack("!iiqiqi16s?", 45, 0, 0, 10_000, 0, 16, bytes(16), False))
        answers.read(struct.unpack("!i", answers.read(4))[0])
        existing_count = 0
        for start in range(0, len(paths), MAX_REQUESTS_IN_FLIGHT):
            request_frames = []
            for request_number, path in enumerate(paths[start : start + MAX_REQUESTS_IN_FLIGHT], start + 1):
                path_bytes = path.encode()
                # The length of the request, its xid, the operation 3 (exists), and the length of the path.
                request_header = struct.pack(
                    "!iiii", 13 + len(path_bytes), request_number, 3, len(path_bytes)
                )
                request_frames += [request_header, path_bytes, b"\0"]
            server.sendall(b"".join(request_frames))
            stat_bytes = answers.read(88 * (len(request_frames) // 3))  # an answer has 20 bytes and a stat
            existing_count += sum(not error for *_, error, _ in struct.iter_unpack("!iiqi68s", stat_bytes))
    if existing_count != len(paths):
        sys.exit("exists: not all ledgers are there")
    return existing_count


if __name__ == "__main__":
    begin_time = time.perf_counter()
    print(as_text(list(lines(int(sys.argv[1]) if sys.argv[1:] else LEDGER_COUNT))))
    print(f"{time.perf_counter() - begin_time:.0f} s")
