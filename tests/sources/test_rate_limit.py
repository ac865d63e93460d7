"""The token bucket, on a clock of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.clock import RateLimit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@given(
    st.floats(1, 1e6),
    st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 3)), min_size=1, max_size=50),
)
def test_what_passed_never_exceeds_the_rate(rate: float, steps: list[tuple[int, float]]) -> None:
    clock = Clock()
    limit = RateLimit(rate, clock=clock, sleep=clock.sleep)
    passed = 0
    for units, idle in steps:
        limit.take(units)
        passed += units
        assert passed <= rate * (clock.now - 100.0) * (1 + 1e-9) + 1e-6
        clock.now += idle


def test_a_steady_reader_gets_the_whole_rate() -> None:
    clock = Clock()
    limit = RateLimit(1000, clock=clock, sleep=clock.sleep)
    for _ in range(100):
        limit.take(200)
    assert clock.now - 100.0 == pytest.approx(20.0)


def test_no_rate_is_no_limit() -> None:
    clock = Clock()
    limit = RateLimit(0, clock=clock, sleep=clock.sleep)
    limit.take(10**9)
    assert clock.now == 100.0
