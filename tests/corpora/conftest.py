"""One layout and one audit of each corpus for all tests of all processes (`tests.corpora.shared`).

A fixture with parameters is given up when a test wants another parameter, and beside each other files are run
one by one: so what they share is kept by fixtures that have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.corpora.audited import FinishedRun, RunWithTables
from tests.corpora.corpora import Corpus
from tests.corpora.shared import Corpora, Runs, shared_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORPORA = (
    pytest.param("interleaved-hier", marks=pytest.mark.long),
    pytest.param("flat-v1", marks=pytest.mark.long),
    "dbledger-long",
)
"""Corpora of the tests that take each of them. By default one is audited, and by ``--all`` all are."""


@pytest.fixture(scope="session")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    """Every corpus, for whoever only reads it."""
    return Corpora(shared_root(tmp_path_factory))


@pytest.fixture(scope="session")
def runs(corpora: Corpora, spark: SparkSession) -> Runs:
    """Audits of them, likewise."""
    return Runs(corpora, spark)


@pytest.fixture(scope="session")
def asked_of(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunWithTables]:
    """What an audit of a corpus's dump and bookies finds, and what its checks were asked of."""
    return lambda name: runs.with_tables(name, lambda: tmp_path_factory.mktemp(name))


@pytest.fixture(scope="session", params=CORPORA)
def corpus(request: pytest.FixtureRequest, corpora: Corpora) -> Corpus:
    return corpora.get(request.param)


@pytest.fixture(scope="session")
def audited(corpus: Corpus, runs: Runs) -> FinishedRun:
    """The corpus's dump and its bookies, audited."""
    return runs.get(corpus.name)


@pytest.fixture(scope="session")
def asked(corpus: Corpus, asked_of: Callable[[str], RunWithTables]) -> RunWithTables:
    """The same, and what its checks were asked of."""
    return asked_of(corpus.name)
