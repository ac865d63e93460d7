"""Latencies measured by `python -m benchmarks load`, and the results computed from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import active_children

import pytest

from benchmarks import load


def test_requests_are_sent_on_schedule_and_timed_from_due_time() -> None:
    begun = time.perf_counter()
    latencies = load.run_steady_phase(lambda: time.sleep(0.05), lambda: None, seconds=0.2, rate=100)
    assert {kind: len(times) for kind, times in latencies.items()} == {"reads": 15, "writes": 5}
    assert min(latencies["reads"]) >= 0.05
    # One after the other they would have taken 0.75 s.
    assert 0.2 <= time.perf_counter() - begun < 0.7


def test_each_audit_is_compared_with_no_audit_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "SETTLE_SECONDS", 0)
    at_work: list[str] = []
    order: list[str] = []

    @contextmanager
    def slow() -> Iterator[Callable[[], int]]:
        at_work.append("slow")
        yield lambda: 0
        at_work.clear()

    def phase(seconds: float) -> load.Latencies:
        order.append(at_work[0] if at_work else load.NO_AUDIT_NAME)
        unit = 3.0 if at_work else 1.0
        noise = 100.0 if len(order) == 1 else 0.0  # of another program, in one round
        return {"reads": [unit + noise] * 99 + [10 * unit + noise]}

    median, last = load.alternate_works("server", phase, {"slow": slow}, rounds=3, phase_s=1.0)
    assert order == [load.NO_AUDIT_NAME, "slow"] * 3
    assert (median.stage, median.ratio) == ("server, reads, median, slow", 3.0)
    assert last.stage == "server, reads, 99 %, slow"
    assert last.ratio == pytest.approx(3.0)
    assert median.note == "3000.00 ms, 1000.00 with no audit; 300 reads, 0 answers a second to the audit"


def end_at_once(answers: int) -> Iterator[int]:
    """Yield one count of answers, and then end."""
    yield answers


def test_benchmark_exits_if_its_process_has_ended() -> None:
    with pytest.raises(SystemExit, match="has ended"):
        _wait_until_it_ends()


def _wait_until_it_ends() -> None:
    with load.run_processes(end_at_once, [(1,)]):
        for process in active_children():
            process.join(30)
