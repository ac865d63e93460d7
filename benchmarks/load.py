"""Latency of other clients of a server while an audit sends it requests, compared with no audit.

A client sends requests at a steady rate and does not wait for answers. A slow request therefore delays the
requests behind it. Each latency counts from the request's scheduled start. The audit's requests come from
separate processes at the lowest priority. A real audit would run on another machine. Each phase gives a
median and a 99th percentile. For each of these quantiles, the lines compare the median over all rounds,
because other programs disturb single rounds.
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

REQUESTS_PER_SECOND = 200
"""Requests of the client per second."""
REQUESTS_PER_WRITE = 4
"""One request in this many is a write."""
ROUNDS, PHASE_SECONDS, SETTLE_SECONDS, MAX_START_SECONDS = 6, 10.0, 1.0, 120.0
THREADS = 64
QUANTILES = {"median": 0.5, "99 %": 0.99}
NO_AUDIT_NAME = "no audit"
DEFAULT_LIMITS_NAME, UNLIMITED_NAME = "default limits", "without limits"

Latencies = Mapping[str, Sequence[float]]
"""Seconds of each request, by kind (``reads`` or ``writes``)."""
Phase = Callable[[float], Latencies]
AuditWork = Callable[[], AbstractContextManager[Callable[[], int]]]
"""Function that starts to send requests. Its context value returns the number of answers so far."""


def run_steady_phase(
    read: Callable[[], object], write: Callable[[], object], seconds: float, rate: float = REQUESTS_PER_SECOND
) -> Latencies:
    """Read and write at a steady rate.

    Args:
        read: Sends one read request and waits for its answer.
        write: Sends one write request and waits for its answer.
        seconds: How long to send requests.
        rate: Requests per second.

    Returns:
        Seconds that each request took from its scheduled start, by kind.
    """
    start_time = time.perf_counter()

    def time_request(request: Callable[[], object], scheduled_time: float) -> float:
        request()
        return time.perf_counter() - start_time - scheduled_time

    futures_by_kind: dict[str, list[Any]] = {"reads": [], "writes": []}
    with ThreadPoolExecutor(THREADS) as pool:
        for request_number in range(round(rate * seconds)):
            scheduled_seconds = request_number / rate
            time.sleep(max(0.0, start_time + scheduled_seconds - time.perf_counter()))
            request_kind, request = (
                ("reads", read) if request_number % REQUESTS_PER_WRITE else ("writes", write)
            )
            futures_by_kind[request_kind].append(pool.submit(time_request, request, scheduled_seconds))
        return {kind: [future.result() for future in futures] for kind, futures in futures_by_kind.items()}


@contextmanager
def run_processes(
    ask: Callable[..., Iterator[int]], arguments_of_processes: Sequence[tuple[Any, ...]]
) -> Iterator[Callable[[], int]]:
    """Run processes that send requests until the ``with`` block ends. Yield a counter of the answers.

    There is one process for each tuple in ``arguments_of_processes``. The process calls ``ask`` with these
    arguments. ``ask`` yields numbers of new answers.
    """
    process_context = get_context("spawn")
    answer_counters = [process_context.Value("q", 0) for _ in arguments_of_processes]
    processes = [
        process_context.Process(
            target=_count_answers, args=(ask, process_arguments, answer_counter), daemon=True
        )
        for process_arguments, answer_counter in zip(arguments_of_processes, answer_counters, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        start_deadline = time.monotonic() + MAX_START_SECONDS
        while not all(answer_counter.value for answer_counter in answer_counters):
            if time.monotonic() > start_deadline or not all(process.is_alive() for process in processes):
                sys.exit("a process that sends requests of the audit sent none")
            time.sleep(0.05)
        yield lambda: sum(answer_counter.value for answer_counter in answer_counters)
        if not all(process.is_alive() for process in processes):
            sys.exit("a process that sends requests of the audit has ended")
    finally:
        for process in processes:
            process.kill()
            process.join()


def _count_answers(
    ask: Callable[..., Iterator[int]], process_arguments: tuple[Any, ...], answer_counter: Any
) -> None:
    os.nice(19)
    for answer_count in ask(*process_arguments):
        answer_counter.value += answer_count


@contextmanager
def _run_no_audit() -> Iterator[Callable[[], int]]:
    yield lambda: 0


def alternate_works(
    server: str,
    phase: Phase,
    audit_works: Mapping[str, AuditWork],
    rounds: int = ROUNDS,
    phase_s: float = PHASE_SECONDS,
) -> Iterator[Line]:
    """Yield lines that compare a client's latencies during each kind of audit work and during no audit.

    Args:
        server: The server's name in the lines.
        phase: Function that runs the client for a number of seconds.
        audit_works: The audit's kinds of work by name.
        rounds: Number of rounds. Each round has one phase for each work, and one phase without an audit.
        phase_s: Duration of a phase, in seconds.
    """
    latencies: dict[str, list[Latencies]] = {}
    answer_rates: dict[str, list[float]] = {}
    works_by_name: dict[str, AuditWork] = {NO_AUDIT_NAME: _run_no_audit, **audit_works}
    for _ in range(rounds):
        for work_name, audit_work in works_by_name.items():
            with audit_work() as count_answers:
                time.sleep(SETTLE_SECONDS)
                start_time, answers_before = time.perf_counter(), count_answers()
                latencies.setdefault(work_name, []).append(phase(phase_s))
                answer_rates.setdefault(work_name, []).append(
                    (count_answers() - answers_before) / (time.perf_counter() - start_time)
                )
    for work_name in audit_works:
        yield from comparison_lines(
            server, work_name, latencies[NO_AUDIT_NAME], latencies[work_name], median(answer_rates[work_name])
        )


def comparison_lines(
    server: str,
    work_name: str,
    idle_rounds: Sequence[Latencies],
    loaded_rounds: Sequence[Latencies],
    answer_rate: float,
) -> Iterator[Line]:
    """Yield a line for each kind of request and each quantile.

    A line compares the latency during a kind of audit work with the latency without an audit.
    """
    for request_kind in idle_rounds[0]:
        request_count = len(list(chain.from_iterable(latencies[request_kind] for latencies in loaded_rounds)))
        for quantile_name, quantile in QUANTILES.items():
            idle_s, loaded_s = (
                median_quantile([latencies[request_kind] for latencies in rounds], quantile)
                for rounds in (idle_rounds, loaded_rounds)
            )
            note = f"{loaded_s * 1000:.2f} ms, {idle_s * 1000:.2f} with {NO_AUDIT_NAME}; {request_count:,} "
            note += f"{request_kind}, {answer_rate:,.0f} answers a second to the audit"
            stage = f"{server}, {request_kind}, {quantile_name}, {work_name}"
            yield Line(stage, 1, "requests", loaded_s, NO_AUDIT_NAME, 1, idle_s, most=True, note=note)


def median_quantile(rounds: Sequence[Sequence[float]], quantile: float) -> float:
    """Return the median over all rounds of each round's quantile.

    >>> median_quantile([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [50.0, 60.0, 70.0]], 0.5)
    4.0
    """
    return median(float(np.quantile(seconds, quantile)) for seconds in rounds)
