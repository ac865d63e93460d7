"""Latency of other clients of one real bookie while an audit sends it requests.

The bookie is BookKeeper 4.17.2 with SortedLedgerStorage, which answers listings. The client is
BookKeeper's. It adds entries to an open ledger and reads entries of closed ledgers. The audit requests
listings (``rpc:``), or single entries, as it does to confirm a finding (witness reads). In this benchmark
the audit sends requests during a whole phase. A real audit requests only 5,000 entries from one bookie.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from auditor.audit.comparison import rpc_limits
from auditor.model.options import AuditOptions
from auditor.sources.bookies.rpc.listings import rpc_rows
from auditor.sources.bookies.rpc.reads import read_rows
from auditor.sources.metadata.store import StoreOptions
from benchmarks.checked_bookies import ENTRIES, checked_bookies
from benchmarks.load import (
    DEFAULT_LIMITS_NAME,
    PHASE_SECONDS,
    REQUESTS_PER_SECOND,
    REQUESTS_PER_WRITE,
    UNLIMITED_NAME,
    AuditWork,
    Latencies,
    alternate_works,
    run_processes,
)
from benchmarks.measure import Line

LEDGERS, BATCH_LEDGERS, ROUNDS = 5_000, 1_000, 4
READER_BY_KIND = {"rpc:": rpc_rows, "witness": read_rows}


def lines(
    ledger_count: int | None = None, rounds: int = ROUNDS, phase_s: float = PHASE_SECONDS
) -> Iterator[Line]:
    """Yield lines for listings and for witness reads.

    If ``ledger_count`` is None, ``BENCHMARK_LEDGERS`` in the environment is the number of ledgers, or
    `LEDGERS`.
    """
    ledger_count = ledger_count or int(os.environ.get("BENCHMARK_LEDGERS", LEDGERS))
    server_settings = {"journalSyncData": "true"}
    with (
        tempfile.TemporaryDirectory() as folder,
        checked_bookies(Path(folder), "SortedLedgerStorage", ledger_count, 1, server_settings) as (
            cluster,
            _,
        ),
    ):
        open_ledgers = iter(range(ledger_count, ledger_count + 1_000_000))

        def phase(seconds: float) -> Latencies:
            return cluster.load(next(open_ledgers), seconds, REQUESTS_PER_SECOND, REQUESTS_PER_WRITE)

        default_options = rpc_limits(AuditOptions())
        options_by_name = {
            DEFAULT_LIMITS_NAME: default_options,
            UNLIMITED_NAME: replace(default_options, rate_limit=0, in_flight=1_000),
        }
        [port] = cluster.ports
        audit_works: dict[str, AuditWork] = {
            f"{request_kind}, {limits_name}": partial(
                run_processes, ask, [(request_kind, port, ledger_count, options)]
            )
            for request_kind in READER_BY_KIND
            for limits_name, options in options_by_name.items()
        }
        yield from alternate_works("bookie", phase, audit_works, rounds, phase_s)


def ask(request_kind: str, port: int, ledgers: int, options: StoreOptions) -> Iterator[int]:
    """Request listings or entries from one bookie without end; yield the number of answers in each batch."""

    def batches() -> Iterator[pa.RecordBatch]:
        while True:
            sample_ids = random.sample(range(ledgers), min(BATCH_LEDGERS, ledgers))
            yield pa.RecordBatch.from_pydict(
                {
                    "bookie_id": ["b"] * len(sample_ids),
                    "scope_id": [0] * len(sample_ids),
                    "ledger_id": sample_ids,
                    "entry_id": [random.randrange(ENTRIES) for _ in sample_ids],
                }
            )

    for rows in READER_BY_KIND[request_kind](batches(), {"b": ("127.0.0.1", port)}, options):
        if set(rows["answered"].is_null().to_pylist()) != {False}:
            raise SystemExit(f"{request_kind}: {rows.filter(rows['answered'].is_null()).to_pylist()[:2]}")
        yield rows.num_rows
