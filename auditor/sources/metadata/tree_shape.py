"""Patterns of names in a tree of ZooKeeper paths: which names have children, and which do not."""

from __future__ import annotations

import re

from auditor.sources.metadata.store import Tree

DEPTH_LIMIT = 16
"""Largest depth of a walk, in levels below its start. The deepest tree, ``scopes``, has nine levels."""

LEAF_NAME = re.compile(r"(L|urL|ID-)-?[0-9]+|L[0-9a-f]{4}")
"""Names without children: ledgers, marks, locks, and nodes of id generators."""

# Inner names whose children are inner too. Listing parents of leaves would bring all ledgers to the driver.
DIVISIBLE_PATHS = {
    Tree.LEDGERS: re.compile(r"[0-9]{2}|[0-9]{3}(/[0-9]{4}){0,2}|scopes(/[0-9a-f]{4}){0,6}"),
    Tree.MARKS: re.compile(r"underreplication/ledgers(/[0-9a-f]{4}){0,3}"),
    Tree.WHOLE: re.compile(r"[^/]+"),
}
