"""Spark's daemon of Python workers, which imports their common modules before it forks them.

A worker that idles for a minute ends, and tests often do without Spark that long. Without this daemon,
workers would import pyarrow and pandas anew a hundred times in a run of all tests.
"""

from __future__ import annotations

import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
from pyspark import daemon

if __name__ == "__main__":
    daemon.manager()
