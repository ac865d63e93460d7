"""Which names of a tree of ZooKeeper's paths hold others: what a walk through a running store has to know."""

from __future__ import annotations

import re

from auditor.sources.metadata.store import Tree

DEPTH_LIMIT = 16
"""Levels below the path where a walk starts; the deepest tree, that of scopes, has nine."""

LEAF = re.compile(r"(L|urL|ID-)-?[0-9]+|L[0-9a-f]{4}")
"""Names that hold no others: ledgers, marks and locks, id generation."""

# Inner names whose children are inner too: listing parents of leaves would bring all ledgers to the driver.
DIVISIBLE = {
    Tree.LEDGERS: re.compile(r"[0-9]{2}|[0-9]{3}(/[0-9]{4}){0,2}|scopes(/[0-9a-f]{4}){0,6}"),
    Tree.MARKS: re.compile(r"underreplication/ledgers(/[0-9a-f]{4}){0,3}"),
    Tree.WHOLE: re.compile(r"[^/]+"),
}
