"""The two scans of a running ZooKeeper that an audit makes, through Spark and into tables.

One ledger in a hundred changes between the scans. If the audit watches the ledgers, its second scan reads
the changed ones. Otherwise it reads all of them. The time is the processor time of this process, Spark's
Java, the Python workers and the server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from auditor.audit.earlier_run import EarlierRun
from auditor.audit.metadata import scan_second, watch_ledgers
from auditor.audit.metadata_scan import open_metadata, scan_first
from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.keys.ledger_tree import to_path
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from auditor.runs.directory import RunDirectory
from auditor.sources.metadata.store import Znode
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.execution import Execution
from auditor.spark.session import build_session
from benchmarks import ledger_records as made
from benchmarks.costs import Cost, least_costs, measure_tree
from benchmarks.measure import ROUNDS, Line

LEDGERS = 100_000
LEDGERS_PER_CHANGE = 100


def lines(count: int = LEDGERS) -> Iterator[Line]:
    """Yield lines for the second scan and for both scans, by processor time and by elapsed time."""
    encoded_records = [made.encode_binary(message) for message in made.make_messages(min(count, LEDGERS))]
    paths = [f"{made.ROOT}/{to_path(made.LAYOUT, ledger)}" for ledger in range(count)]
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedZooKeeper(Path(folder, "server"), heap=f"{512 + count // 700}m") as server,
    ):
        server.load(
            Znode(path, znode_data, *[0] * 6)
            for path, znode_data in zip(paths, cycle(encoded_records), strict=False)
        )
        client = KazooClient(hosts=server.hosts)
        client.start()
        spark = build_session()
        scans = _Scans(spark, Path(folder), server, client, paths, encoded_records)
        scans.scan_twice(is_watched=True)  # warms up Java
        rounds = [[scans.scan_twice(is_watched) for is_watched in (True, False)] for _ in range(ROUNDS)]
        spark.stop()
        client.stop()
        client.close()
    changed_costs, full_costs = (
        least_costs([costs_of_variants[variant_number] for costs_of_variants in rounds])
        for variant_number in (0, 1)
    )
    for cost_name in ("client", "clock"):
        own_seconds, full_seconds = (
            [getattr(cost, cost_name) for cost in variant_number]
            for variant_number in (changed_costs, full_costs)
        )
        clock_name = "processor time" if cost_name == "client" else "by the clock"
        for stage, seconds, rival_seconds in (
            ("second scan into its table", own_seconds[1], full_seconds[1]),
            ("both scans into their tables", sum(own_seconds), sum(full_seconds)),
        ):
            yield Line(
                f"live ZooKeeper, {stage}, {clock_name}",
                count,
                "ledgers",
                seconds,
                "all twice",
                count,
                rival_seconds,
            )


class _Scans:
    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        server: EmbeddedZooKeeper,
        client: Any,
        paths: list[str],
        encoded_records: list[bytes],
    ) -> None:
        self._spark, self._folder, self._server, self._client = spark, folder, server, client
        self._paths, self._records = paths, encoded_records
        self._run_count = 0

    def scan_twice(self, is_watched: bool) -> list[Cost]:
        """Make the first and the second scan; return the cost of each."""
        self._run_count += 1
        uri = f"zk://{self._server.hosts}{made.ROOT}"
        run = RunDirectory(str(self._folder / f"run{self._run_count}"))
        run.begin_run({"metadata": uri})
        options = AuditOptions(rate_limit=0)
        cache = TableCache(Execution(self._spark), RunStore(run), SilentProgress())
        with open_metadata(cache, parse_metadata_uri(uri), options) as source:
            if is_watched:
                watch_ledgers(source)
            first_scan, first_cost = measure_tree(lambda: scan_first(source, EarlierRun(None)))
            self._change()
            second_scan, second_cost = measure_tree(lambda: scan_second(first_scan))
            assert second_scan.ledgers is not None
            reused_count = second_scan.ledgers.where("reused").count()
        assert reused_count == (
            len(self._paths) - len(self._paths[::LEDGERS_PER_CHANGE]) if is_watched else 0
        )
        return [first_cost, second_cost]

    def _change(self) -> None:
        transaction = self._client.transaction()
        for ledger_index, path in enumerate(self._paths[::LEDGERS_PER_CHANGE]):
            transaction.set_data(path, self._records[(ledger_index + self._run_count) % len(self._records)])
            if len(transaction.operations) == 500:
                transaction.commit()
                transaction = self._client.transaction()
        transaction.commit()
