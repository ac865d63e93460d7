"""An audit interrupted at any stage, by a different victim each time, has the same findings when repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.killed.cells import NOT_AT_WORK, STAGES
from proofs.killed.ground import IN_A_NAMESPACE
from proofs.killed.victims import VICTIMS


@pytest.mark.server
def test_interrupted_audit_has_the_same_findings_when_repeated_at_every_stage(tmp_path: Path) -> None:
    mount = [*IN_A_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    tried = subprocess.run(mount, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"disks cannot be mounted here: {tried.stderr.strip()}")
    done = subprocess.run(
        [sys.executable, "-m", "proofs.killed", "--diagonal"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert {row[0].removeprefix("| ").partition(" (")[0] for row in rows} == {*STAGES}
    assert {row[1] for row in rows} == {victim.name for victim in VICTIMS}
    assert NOT_AT_WORK not in {row[2] for row in rows}
