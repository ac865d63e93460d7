"""One layout and one audit of each corpus for all tests of a process.

A fixture with parameters is given up when a test wants another parameter, and beside each other files are run
one by one: so what they share is kept by fixtures that have none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.corpora.audited import Asked, audit
from tests.corpora.corpora import Corpus, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORPORA = ("interleaved-hier", "flat-v1", "dbledger-long")


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Corpus]:
    """The corpora by name, each laid out once."""
    return cache(lambda name: unpack(name, tmp_path_factory.mktemp("corpus") / name))


@pytest.fixture(scope="session")
def audit_of(unpacked: Callable[[str], Corpus], spark: SparkSession) -> Callable[[str], Asked]:
    """What an audit of each corpus's dump and bookies finds, by the corpus's name; made once."""

    def made(name: str) -> Asked:
        corpus = unpacked(name)
        return audit(spark, f"dump://{corpus.dump}", corpus.bookies, corpus.root / "run")

    return cache(made)


@pytest.fixture(scope="session", params=CORPORA)
def corpus(request: pytest.FixtureRequest, unpacked: Callable[[str], Corpus]) -> Corpus:
    return unpacked(request.param)


@pytest.fixture(scope="session")
def audited(corpus: Corpus, audit_of: Callable[[str], Asked]) -> Asked:
    """The corpus's dump and its bookies, audited."""
    return audit_of(corpus.name)
