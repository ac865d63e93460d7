"""Fixtures that unpack and audit each corpus once for all tests of all processes (`tests.corpora.shared`).

pytest discards a fixture with parameters when a test requests another parameter. Parallel processes run the
files one by one. So fixtures without parameters keep the objects that files share.
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
    """Return every corpus, for tests that only read it."""
    return Corpora(shared_root(tmp_path_factory))


@pytest.fixture(scope="session")
def runs(corpora: Corpora, spark: SparkSession) -> Runs:
    """Return audits of the corpora, for tests that only read them."""
    return Runs(corpora, spark)


@pytest.fixture(scope="session")
def asked_of(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunWithTables]:
    """Return a function that audits a corpus's dump and bookies and keeps the tables of its checks."""
    return lambda name: runs.with_tables(name, lambda: tmp_path_factory.mktemp(name))


@pytest.fixture(scope="session", params=CORPORA)
def corpus(request: pytest.FixtureRequest, corpora: Corpora) -> Corpus:
    return corpora.get(request.param)


@pytest.fixture(scope="session")
def audited(corpus: Corpus, runs: Runs) -> FinishedRun:
    """Return the audit of the corpus's dump and its bookies."""
    return runs.get(corpus.name)


@pytest.fixture(scope="session")
def asked(corpus: Corpus, asked_of: Callable[[str], RunWithTables]) -> RunWithTables:
    """Return the same audit, with the tables that its checks queried."""
    return asked_of(corpus.name)
