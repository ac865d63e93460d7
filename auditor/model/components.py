"""What hangs together: the connected components of a graph."""

from __future__ import annotations

from collections.abc import Iterable


def components(edges: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """The components of the graph that ``edges`` make: each ascending, all by their first node.

    Nodes without an edge are in none. The order of the edges, and of their ends, does not matter.

    >>> components([("c", "b"), ("x", "y"), ("a", "b")])
    (('a', 'b', 'c'), ('x', 'y'))
    """
    above: dict[str, str] = {}

    def top(node: str) -> str:
        above.setdefault(node, node)
        while above[node] != node:
            above[node] = above[above[node]]  # halve the path, or long chains cost their square
            node = above[node]
        return node

    for one, other in edges:
        first, second = sorted((top(one), top(other)))
        above[second] = first
    members: dict[str, list[str]] = {}
    for node in sorted(above):
        members.setdefault(top(node), []).append(node)
    return tuple(tuple(nodes) for _, nodes in sorted(members.items()))
