"""One layout and one audit of each corpus for all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.corpora.audited import Asked, audit
from tests.corpora.corpora import Corpus, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORPORA = ("interleaved-hier", "flat-v1", "dbledger-long")


@pytest.fixture(scope="session", params=CORPORA)
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return unpack(request.param, tmp_path_factory.mktemp("corpus") / request.param)


@pytest.fixture(scope="session")
def audited(corpus: Corpus, spark: SparkSession) -> Asked:
    """The corpus's dump and its bookies, audited."""
    return audit(spark, f"dump://{corpus.dump}", corpus.bookies, corpus.root / "run")
