"""The connected components of a graph."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from auditor.model.bookie_alias import find_components

NODES = st.sampled_from("abcdefgh")
EDGES = st.lists(st.tuples(NODES, NODES), max_size=12)


def reachable(edges: list[tuple[str, str]], node: str) -> set[str]:
    reached = {node}
    while neighbours := {b for a, b in edges + [(b, a) for a, b in edges] if a in reached} - reached:
        reached |= neighbours
    return reached


@given(EDGES)
def test_nodes_reachable_from_each_other_are_one_component(edges: list[tuple[str, str]]) -> None:
    nodes = {node for edge in edges for node in edge}
    expected = {tuple(sorted(reachable(edges, node))) for node in nodes}
    assert find_components(edges) == tuple(sorted(expected))


@given(EDGES)
def test_order_of_edges_does_not_change_the_components(edges: list[tuple[str, str]]) -> None:
    turned = [(b, a) for a, b in reversed(edges)]
    assert find_components(turned) == find_components(edges)


def test_a_long_chain_is_one_component() -> None:
    names = [f"{number:05}" for number in range(20_000)]
    assert find_components(itertools.pairwise(names)) == (tuple(names),)
    assert find_components(reversed(list(itertools.pairwise(names)))) == (tuple(names),)
