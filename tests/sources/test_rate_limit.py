"""The token bucket, driven by a fake clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.clock import RateLimit


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


@given(
    st.floats(1, 1e6),
    st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 3)), min_size=1, max_size=50),
)
def test_rate_is_never_exceeded(rate: float, steps: list[tuple[int, float]]) -> None:
    clock = Clock()
    limit = RateLimit(rate, clock=clock, sleep=clock.sleep)
    passed = 0
    for units, idle in steps:
        limit.take(units)
        passed += units
        assert passed <= rate * (clock.now_s - 100.0) * (1 + 1e-9) + 1e-6
        clock.now_s += idle


def test_continuous_reader_gets_the_whole_rate() -> None:
    clock = Clock()
    limit = RateLimit(1000, clock=clock, sleep=clock.sleep)
    for _ in range(100):
        limit.take(200)
    assert clock.now_s - 100.0 == pytest.approx(20.0)


def test_rate_of_zero_is_no_limit() -> None:
    clock = Clock()
    limit = RateLimit(0, clock=clock, sleep=clock.sleep)
    limit.take(10**9)
    assert clock.now_s == 100.0
