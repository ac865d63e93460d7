"""The parts that all cases share: a directory, a storage, a release, and ``bkaudit`` as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND_LIMIT_S = 900
"""Longest time of a command in seconds."""
LAST_LINES = 12
"""Number of lines of standard error to print, from the end."""


@dataclass(frozen=True)
class CaseSession:
    """The directory of one case, and the storage and release of its bookies."""

    root: Path
    storage: str
    release: str

    @property
    def bookies(self) -> Path:
        """The directory in which the test harness keeps the bookies' directories."""
        return self.root / "bookies"

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run ``bkaudit``; print its exit code, its output and the last lines of its standard error."""
        words = [str(argument) for argument in arguments]
        done = subprocess.run(
            [sys.executable, "-c", "from auditor.cli import main; main(prog_name='bkaudit')", *words],
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        print(f"$ bkaudit {' '.join(words)}\nexit code {done.returncode}\n{done.stdout}", flush=True)
        print("\n".join(done.stderr.splitlines()[-LAST_LINES:]), flush=True)
        return done

    def audit(self, metadata: str, name: str, *options: object) -> Path:
        """Audit the bookies; return the run directory, which has the given name."""
        out = self.root / name
        self.run("audit", "--metadata", metadata, "--bookies", self.bookies, "--out", out, *options)
        return out

    def print_findings(self, run: Path) -> None:
        """Print one line for each finding of a run."""
        for finding in findings(run):
            names = ("urgency", "severity", "id", "confidence", "bookie_id", "ledger_id", "message")
            print(*(finding[name] for name in names), json.dumps(finding["evidence"])[:400])


def findings(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the findings of a finished run as ``bkaudit report --format jsonl`` prints them."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from auditor.cli import main; main(prog_name='bkaudit')"),
            *("report", str(run), "--format", "jsonl"),
        ],
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    yield from map(json.loads, done.stdout.splitlines())
