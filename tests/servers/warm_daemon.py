"""Spark's daemon of Python workers, which has loaded what all of them import before it forks them.

Workers that idle for a minute are ended, and tests are often that long about something else: a hundred times
in a run of all of them pyarrow and pandas would be loaded anew.
"""

from __future__ import annotations

import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
from pyspark import daemon

if __name__ == "__main__":
    daemon.manager()
