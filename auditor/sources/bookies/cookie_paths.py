"""Which directory is meant by a path in a cookie.

A cookie names directories by their paths on the bookie's own machine, ``/data/bk3/ledgers0``; here they lie
somewhere below a place. A path is matched by its longest suffix: the directory whose path shares the most
parts with it, counted from the end. Where two share equally many, or none shares any, it is not matched, and
the reason is kept: a guess could turn another directory's data into losses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key")

NOT_FOUND = "no such directory was found"
"""Why a path has no directory, where none is like it."""


@dataclass(frozen=True, slots=True)
class PathMatches(Generic[Key]):
    """``found``: the directory of each path that has one; ``reasons``: why each other path has none."""

    found: dict[str, Key]
    reasons: dict[str, str]


def path_parts(path: str) -> tuple[str, ...]:
    """
    >>> path_parts("/data/bk3/ledgers0/")
    ('data', 'bk3', 'ledgers0')
    """
    return tuple(part for part in path.split("/") if part not in ("", "."))


def shared_parts(path: Sequence[str], inside: Sequence[str]) -> int:
    """How many parts two paths share, counted from the end.

    >>> shared_parts(("data", "disk1", "ledgers"), ("bk1", "disk1", "ledgers"))
    2
    """
    count = 0
    for one, other in zip(reversed(path), reversed(inside), strict=False):
        if one != other:
            break
        count += 1
    return count


def match(paths: Sequence[str], directories: Mapping[Key, Sequence[str]]) -> PathMatches[Key]:
    """Match the paths of a cookie with directories, each given by the parts of its path from its place on.

    A directory answers to one path only: to the one it shares most with.

    >>> found = {1: ("bk1", "disk1", "ledgers"), 2: ("bk1", "disk2", "ledgers")}
    >>> match(["/mnt/disk1/ledgers", "/mnt/disk2/ledgers"], found).found
    {'/mnt/disk1/ledgers': 1, '/mnt/disk2/ledgers': 2}
    >>> match(["/mnt/ledgers"], found).reasons
    {'/mnt/ledgers': 'bk1/disk1/ledgers and bk1/disk2/ledgers both could be it'}
    """
    best: dict[str, tuple[int, Key]] = {}
    reasons: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        lengths = {key: shared_parts(path_parts(path), inside) for key, inside in directories.items()}
        longest = max(lengths.values(), default=0)
        longest_keys = [key for key, length in lengths.items() if length == longest]
        if longest == 0:
            reasons[path] = NOT_FOUND
        elif len(longest_keys) > 1:
            names = sorted("/".join(directories[key]) for key in longest_keys)
            reasons[path] = f"{names[0]} and {names[1]} both could be it"
        else:
            best[path] = (longest, longest_keys[0])
    found: dict[str, Key] = {}
    for path, (length, key) in best.items():
        rivals = [other for other, (_, rival) in best.items() if rival == key and other != path]
        if all(best[other][0] < length for other in rivals):
            found[path] = key
        else:
            reasons[path] = f"{'/'.join(directories[key])} could as well be {rivals[0]}"
    return PathMatches(found, reasons)
