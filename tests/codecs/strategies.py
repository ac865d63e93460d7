"""Hypothesis strategies for sets of entries: regular and ragged runs, small and beyond int32."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.codecs.scalar import Group

LONGEST = 2**31 - 1

sizes = st.one_of(
    st.integers(1, 4), st.sampled_from([LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST, 5 * 2**31])
)
gaps = st.one_of(st.integers(0, 4), st.sampled_from([LONGEST - 2, LONGEST - 1, LONGEST, LONGEST + 1, 2**40]))


@st.composite
def ragged_groups(draw: st.DrawFn, max_groups: int = 8) -> list[Group]:
    """Draw ascending, unfolded groups of one set: they may touch, repeat a pattern or be very large."""
    first = draw(st.one_of(st.integers(0, 5), st.just(2**40)))
    groups: list[Group] = []
    for _ in range(draw(st.integers(0, max_groups))):
        size = draw(sizes)
        gap = draw(gaps)
        count = draw(st.integers(1, 5))
        period = size + draw(st.integers(0, 3))
        if count == 1 or period > LONGEST:
            count, period = 1, 0
        last = first + gap + (count - 1) * period
        groups.append((first + gap, last, size, period))
        first = last + size
    return groups


entry_sets = st.one_of(
    st.sets(st.integers(0, 40), max_size=40), st.sets(st.integers(0, 2**40), max_size=30)
).map(sorted)
