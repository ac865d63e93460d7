"""Resources that all processes of one test run share: unpacked corpora, and finished audits of them.

The first process that needs a resource makes it, and the others wait for it. Tests only read them: a test
that changes one takes a copy, or unpacks a corpus of its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.notebook.run import open_run
from tests.corpora.audited import FinishedRun, RunWithTables, audit
from tests.corpora.corpora import Corpus, lay_out, open_corpus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES: dict[str, tuple[str, Callable[[Corpus], str]]] = {
    **{
        name: (name, lambda corpus: f"dump://{corpus.dump}")
        for name in ("interleaved-hier", "flat-v1", "dbledger-long")
    },
    "etcd": ("etcd", lambda corpus: f"dump://{corpus.dump}?root=/bk/cluster1"),
    "etcd-snapshot": ("etcd", lambda corpus: f"etcd-snapshot://{corpus.snapshot}?scope=/bk/cluster1"),
}
"""The audits that are shared: the corpus, and where its metadata is read."""


def shared_root(factory: pytest.TempPathFactory) -> Path:
    """Return a directory that the processes of this run share."""
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"


def make_once(root: Path, name: str, make: Callable[[Path], object]) -> Path:
    """Return the directory of this name below ``root``; ``make`` fills it, if no process has yet."""
    place, done_mark = root / name, root / f"{name}.whole"
    root.mkdir(exist_ok=True)
    with (root / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done_mark.exists():
            shutil.rmtree(place, ignore_errors=True)  # of a process that failed half way
            place.mkdir()
            make(place)
            done_mark.touch()
    return place


class Corpora:
    """The unmodified corpora, by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.get = cache(self._get)

    def _get(self, name: str) -> Corpus:
        return open_corpus(name, make_once(self.root, name, lambda place: lay_out(name, place)))


class Runs:
    """Finished audits of the corpora by the names of `SOURCES`."""

    def __init__(self, corpora: Corpora, spark: SparkSession) -> None:
        self._corpora = corpora
        self._spark = spark
        self._runs_with_tables: dict[str, RunWithTables] = {}
        self.get = cache(self._get)

    def _get(self, name: str) -> FinishedRun:
        place = make_once(self._corpora.root, f"run-of-{name}", lambda place: self._audit(name, place))
        return FinishedRun(open_run(place / "run").report, place / "run")

    def with_tables(self, name: str, otherwise: Callable[[], Path]) -> RunWithTables:
        """Return an audit with its tables, which only the process that made the audit has.

        If another process made the audit, repeat it in the directory that ``otherwise`` returns.
        """
        self.get(name)
        if name not in self._runs_with_tables:
            self._audit(name, otherwise())
        return self._runs_with_tables[name]

    def _audit(self, name: str, place: Path) -> None:
        corpus_name, metadata = SOURCES[name]
        corpus = self._corpora.get(corpus_name)
        self._runs_with_tables[name] = audit(self._spark, metadata(corpus), corpus.bookies, place / "run")
