"""File systems that are not available: the error is one line, with the remedy."""

from __future__ import annotations

import re

import pytest

from auditor.errors import RunUsageError
from auditor.sources.file_systems import run_files


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "hdfs://127.0.0.1:1/runs",
            "hdfs:// needs Java and libhdfs.so of a Hadoop installation: set JAVA_HOME, ",
        ),
        ("nothing://x/runs", "Unrecognized filesystem type in URI: nothing://x/runs"),
    ],
)
def test_missing_file_system_is_reported_in_one_line(
    path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RunUsageError, match=re.escape(f"{path}: no file system found: {message}")) as error:
        run_files(path)
    assert "\n" not in str(error.value)
