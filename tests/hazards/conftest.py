from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.corpora.conftest import corpora, runs
from tests.corpora.shared import shared_root
from tests.hazards.cases import Hazards

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["corpora", "hazards", "runs"]


@pytest.fixture(scope="session")
def hazards(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Hazards:
    """Return the hazard cases and their audits."""
    return Hazards(shared_root(tmp_path_factory), spark)
