"""Small inputs that would expand to an enormous size are refused before they take memory."""

from __future__ import annotations

import re
import subprocess
import sys

from proofs.fuzz.bombs import BOMBS

MOST_MB = 280
"""Largest growth in MB. The largest limit is that of a report: 256 MB."""

MOST_S = 20.0


def test_every_bomb_is_refused_within_memory_and_time_limits() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proofs.fuzz.bombs"], capture_output=True, text=True, check=True, timeout=300
    )
    lines = dict(zip(BOMBS, done.stdout.splitlines(), strict=True))
    for name, line in lines.items():
        match = re.fullmatch(rf"{name} +(-?\d+) MB +([\d.]+) s  \w+Error: .+", line)
        assert match, line
        assert int(match[1]) <= MOST_MB, line
        assert float(match[2]) <= MOST_S, line
