"""The ways in which audits of a live cluster read the bookies' indexes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditor.collect.collect import collect
from tests.clusters.living import LivingBookies


@dataclass(frozen=True)
class Way:
    """A way to read the indexes.

    ``sources`` returns the ``--bookies`` values. It may create the directory that it gets.
    """

    name: str
    sources: Callable[[LivingBookies, Path], list[str]]
    options: dict[str, Any] = field(default_factory=dict)


def _directories(cluster: LivingBookies, _: Path) -> list[str]:
    return [str(cluster.directory)]


def _copied(cluster: LivingBookies, out: Path) -> list[str]:
    """Copy the directories of running bookies like ``cp -a``, and ignore files that vanish meanwhile."""

    def copy(source: str, target: str) -> None:
        try:
            shutil.copy2(source, target)
        except FileNotFoundError:
            Path(target).unlink(missing_ok=True)

    # Garbage collection may delete a directory while it is copied.
    with suppress(shutil.Error):
        shutil.copytree(cluster.directory, out, copy_function=copy)
    return [str(out)]


def _collected(cluster: LivingBookies, out: Path) -> list[str]:
    return [collect([str(cluster.directory)], str(out)).path]


DISK = Way("disk", _directories)
RPC = Way("rpc", lambda *_: ["rpc:"])
DISK_AND_RPC = Way("disk-and-rpc", lambda *values: [*_directories(*values), "rpc:"])
COPIED = Way("copies", _copied)
COLLECTED = Way("collected", _collected)
SINCE_LAST = Way("since-last", _directories, {"since": "last"})

WAYS = (DISK, RPC, DISK_AND_RPC)
MORE_WAYS = (SINCE_LAST, COLLECTED, COPIED)
