"""Golden bytes to start fuzzing from: values of other programs in the table of formats, by reader."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import gzip
import importlib
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.truth.table import ROOT, formats

LARGEST = 1 << 16
"""Largest value to start from, in bytes."""

_UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}


def golden(reader: str) -> list[bytes]:
    """Return all values that `tests/truth/formats.toml` lists for a reader, the shortest first."""
    values = {
        data for row in formats() if reader in row.readers for where in row.bytes for data in octets_of(where)
    }
    return sorted((data for data in values if len(data) <= LARGEST), key=lambda data: (len(data), data))


def spread(values: Iterable[bytes], most: int) -> list[bytes]:
    """Return at most ``most`` values, with as many different lengths as possible."""
    by_length: dict[int, list[bytes]] = {}
    for data in values:
        by_length.setdefault(len(data), []).append(data)
    turns = max(map(len, by_length.values()), default=0)
    return [group[turn] for turn in range(turns) for group in by_length.values() if turn < len(group)][:most]


@cache
def octets_of(where: str) -> tuple[bytes, ...]:
    """Return the values at a place in the table of formats: ``PATH``, a glob, or ``PATH!PART``."""
    path, _, part = where.partition("!")
    return tuple(data for file in sorted(ROOT.glob(path)) if file.is_file() for data in _values(file, part))


def _values(file: Path, part: str) -> Iterator[bytes]:
    if ".tar" in file.suffixes:
        with tarfile.open(file) as archive:
            for member in archive:
                if member.isfile() and member.size <= LARGEST and fnmatch.fnmatch(member.name, part):
                    content = archive.extractfile(member)
                    assert content is not None
                    yield content.read()
    elif file.suffix == ".py":
        module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        yield from octets_in(getattr(module, part))
    else:
        data = _UNPACK.get(file.suffix, bytes)(file.read_bytes())
        if ".jsonl" in file.suffixes and part:
            nodes = [node for line in data.splitlines() if "path" in (node := json.loads(line))]
            yield from (
                base64.b64decode(node["data"]) for node in nodes if fnmatch.fnmatch(node["path"], part)
            )
        elif part:
            value = json.loads(data)
            for key in part.strip(".").split("."):
                value = value[key] if key else value
            yield from octets_in(value)
        else:
            yield data


def octets_in(value: Any) -> Iterator[bytes]:
    """Yield the values in JSON or in a constant of a test: bytes, and texts in hex or base64."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield _octets(value)
    elif isinstance(value, dict):
        for element in value.values():
            yield from octets_in(element)
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from octets_in(element)


def _octets(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # not base64, perhaps not ASCII
        return text.encode()
