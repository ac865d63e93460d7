"""Every command does the same work with the same exit code, at whatever moment a stream loses its reader."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stream_cells import CASES, MOMENTS, STREAMS, functions

ROOT = Path(__file__).parents[2]
VARYING = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:]+|[\d.,]+ (ms|s|h)\b|a second|\d{8}T\d{6}Z|\d+ seconds")
"""Times and durations, which two calls do not share."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.cli.stream_cells", str(tmp_path_factory.mktemp("streams"))]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    cells: dict[str, dict[str, Any]] = json.loads(ended.stdout)
    return cells


def test_the_matrix_has_every_command() -> None:
    calls = {tuple(words) for name, words in CASES.items()} | {("plan", "make")}
    for command, _ in functions():
        assert any(call[: len(command)] == command for call in calls), command


@pytest.mark.parametrize("name", CASES)
def test_closed_stream_changes_neither_work_nor_exit_code(
    outcomes: dict[str, dict[str, Any]], name: str
) -> None:
    cells = dict(outcomes[name])
    undisturbed = cells.pop("undisturbed")
    assert undisturbed["code"] in (0, 1, 2, 3), undisturbed
    assert len(cells) == len(STREAMS) * len(MOMENTS)
    for cell, outcome in cells.items():
        stream = cell.partition(" ")[0]
        assert outcome["code"] == undisturbed["code"], (cell, outcome)
        assert outcome["files"] == undisturbed["files"], cell
        if stream != "both":
            intact = "stderr" if stream == "stdout" else "stdout"
            assert plain(outcome[intact]) == plain(undisturbed[intact]), cell


def plain(text: str) -> str:
    """Return a text without its times and durations."""
    return VARYING.sub("TIME", text)
