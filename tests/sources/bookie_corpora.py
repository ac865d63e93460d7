"""Bookie directories that real 4.17.2 bookies wrote, and the output of their Java code about them."""

from __future__ import annotations

import gzip
import json
import os
import struct
from pathlib import Path
from typing import Any

from auditor.demo.sample import extract

DATA = Path(__file__).parents[1] / "data"


def unpack_bookies(corpus: str, target: Path) -> Path:
    """Unpack ``bookies/`` of a corpus below ``target``: index files, VERSION and lastMark, no entry logs."""
    extract(DATA / corpus / "bookies.tar.gz", target)
    return target / "bookies"


def oracle(corpus: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress((DATA / corpus / "oracle.json.gz").read_bytes()))
    return loaded


def cookie(
    bookie_id: str, ledgers: list[str], index: list[str] | None = None, instance: str | None = "cluster"
) -> bytes:
    """Return a handwritten VERSION file of layout 5."""

    def directories(paths: list[str]) -> str:
        return "\\t".join([str(len(paths)), *paths])

    lines = [
        "5",
        f'bookieHost: "{bookie_id}"',
        'journalDir: "/data/journal"',
        f'ledgerDirs: "{directories(ledgers)}"',
    ]
    if instance is not None:
        lines.append(f'instanceId: "{instance}"')
    if index is not None:
        lines.append(f'indexDirs: "{directories(index)}"')
    return "\n".join([*lines, ""]).encode()


def make_directory(path: Path, version: bytes | None, *, marked: float | None = 1000.0) -> Path:
    """Make a directory with ``current``, its VERSION, and a lastMark of ``marked`` seconds, written then."""
    current = path / "current"
    current.mkdir(parents=True)
    if version is not None:
        (current / "VERSION").write_bytes(version)
    if marked is not None:
        (current / "lastMark").write_bytes(struct.pack(">qq", round(marked * 1000), 0))
        os.utime(current / "lastMark", (marked, marked))
    return path
