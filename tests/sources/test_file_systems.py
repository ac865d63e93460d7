"""File systems that cannot be had: one line, and the way out."""

from __future__ import annotations

import re

import pytest

from auditor.errors import RunUsageError
from auditor.sources.file_systems import run_files


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "hdfs://127.0.0.1:1/runs",
            "hdfs:// needs Java and libhdfs.so of a Hadoop installation: set JAVA_HOME, ",
        ),
        ("nothing://x/runs", "Unrecognized filesystem type in URI: nothing://x/runs"),
    ],
)
def test_a_file_system_that_is_not_there_is_one_line(
    path: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RunUsageError, match=re.escape(f"{path}: no file system found: {said}")) as told:
        run_files(path)
    assert "\n" not in str(told.value)
