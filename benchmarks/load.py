"""How long others wait for a server while an audit asks it too: phases with and without one, in turn.

A client asks steadily, whether it was answered or not, so that a request that waits makes the ones behind it
wait as well; each is timed from the moment when it was due. Whoever asks for the audit does so in processes
of its own, which give way to all others: on a cluster they have another machine. Of each phase the median and
the 99th percentile are taken, and of these the median over all rounds, as other programs come and go.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import Line

RATE = 200
"""Requests a second of the client."""
WRITE_EVERY = 4
"""One request of so many writes."""
ROUNDS, PHASE_S, SETTLE_S, START_S = 6, 10.0, 1.0, 120.0
THREADS = 64
QUANTILES = {"median": 0.5, "99 %": 0.99}
NO_AUDIT = "no audit"
DEFAULT, UNLIMITED = "default limits", "without limits"

Latencies = Mapping[str, Sequence[float]]
"""Seconds of each request, by kind."""
Phase = Callable[[float], Latencies]
Work = Callable[[], AbstractContextManager[Callable[[], int]]]
"""Begins to ask, and says how many answers there have been."""


def steady(
    read: Callable[[], object], write: Callable[[], object], seconds: float, rate: float = RATE
) -> Latencies:
    """Read and write at a rate for a while, and how long each took from when it was due."""
    begun = time.perf_counter()

    def ask(request: Callable[[], object], due: float) -> float:
        request()
        return time.perf_counter() - begun - due

    pending: dict[str, list[Any]] = {"reads": [], "writes": []}
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(round(rate * seconds)):
            due = number / rate
            time.sleep(max(0.0, begun + due - time.perf_counter()))
            kind, request = ("reads", read) if number % WRITE_EVERY else ("writes", write)
            pending[kind].append(pool.submit(ask, request, due))
        return {kind: [future.result() for future in sent] for kind, sent in pending.items()}


@contextmanager
def at_work(
    ask: Callable[..., Iterator[int]], shares: Sequence[tuple[Any, ...]]
) -> Iterator[Callable[[], int]]:
    """A process for each share that asks until the block ends; ``ask`` gives how many answers were new."""
    context = get_context("spawn")
    counts = [context.Value("q", 0) for _ in shares]
    processes = [
        context.Process(target=_count, args=(ask, share, count), daemon=True)
        for share, count in zip(shares, counts, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        deadline = time.monotonic() + START_S
        while not all(count.value for count in counts):
            if time.monotonic() > deadline or not all(process.is_alive() for process in processes):
                sys.exit("whoever asks for the audit does not")
            time.sleep(0.05)
        yield lambda: sum(count.value for count in counts)
        if not all(process.is_alive() for process in processes):
            sys.exit("whoever asks for the audit has ended")
    finally:
        for process in processes:
            process.kill()
            process.join()


def _count(ask: Callable[..., Iterator[int]], share: tuple[Any, ...], count: Any) -> None:
    os.nice(19)
    for answer_count in ask(*share):
        count.value += answer_count


@contextmanager
def _nobody() -> Iterator[Callable[[], int]]:
    yield lambda: 0


def in_turn(
    server: str, phase: Phase, works: Mapping[str, Work], rounds: int = ROUNDS, phase_s: float = PHASE_S
) -> Iterator[Line]:
    """What each work makes of the client's latencies, beside no work at all."""
    latencies: dict[str, list[Latencies]] = {}
    rates: dict[str, list[float]] = {}
    ways: dict[str, Work] = {NO_AUDIT: _nobody, **works}
    for _ in range(rounds):
        for way, work in ways.items():
            with work() as answers:
                time.sleep(SETTLE_S)
                begun, before = time.perf_counter(), answers()
                latencies.setdefault(way, []).append(phase(phase_s))
                rates.setdefault(way, []).append((answers() - before) / (time.perf_counter() - begun))
    for way in works:
        yield from compared(server, way, latencies[NO_AUDIT], latencies[way], median(rates[way]))


def compared(
    server: str, way: str, idle_rounds: Sequence[Latencies], loaded_rounds: Sequence[Latencies], rate: float
) -> Iterator[Line]:
    """A line for each kind of request and quantile: one request beside a work against one without."""
    for kind in idle_rounds[0]:
        requests = len(list(chain.from_iterable(latencies[kind] for latencies in loaded_rounds)))
        for name, quantile in QUANTILES.items():
            rival_seconds, ours = (
                middle([latencies[kind] for latencies in rounds], quantile)
                for rounds in (idle_rounds, loaded_rounds)
            )
            note = f"{ours * 1000:.2f} ms, {rival_seconds * 1000:.2f} with {NO_AUDIT}; {requests:,} {kind}, "
            note += f"{rate:,.0f} answers a second to the audit"
            stage = f"{server}, {kind}, {name}, {way}"
            yield Line(stage, 1, "requests", ours, NO_AUDIT, 1, rival_seconds, most=True, note=note)


def middle(rounds: Sequence[Sequence[float]], quantile: float) -> float:
    """The median over rounds of a quantile of each.

    >>> middle([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [50.0, 60.0, 70.0]], 0.5)
    4.0
    """
    return median(float(np.quantile(seconds, quantile)) for seconds in rounds)
