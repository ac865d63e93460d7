"""The file of inputs kept from fuzzing: for each target, small inputs that reach most of its code."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).parents[2] / "tests" / "data" / "fuzz" / "corpus.tar.xz"
MOST_INPUTS, MOST_BYTES = 60, 400
"""Limits per target: the number of inputs, and the length of each in bytes."""


@cache
def kept_inputs() -> Mapping[str, tuple[bytes, ...]]:
    """Return the kept inputs by target."""
    inputs_by_target: dict[str, list[bytes]] = {}
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            inputs_by_target.setdefault(member.name.partition("/")[0], []).append(content.read())
    return {name: tuple(inputs) for name, inputs in inputs_by_target.items()}


def write_corpus(inputs: Mapping[str, Iterable[bytes]]) -> int:
    """Write the smallest inputs of each target; return their number."""
    count = 0
    with tarfile.open(CORPUS, "w:xz", preset=9) as archive:
        for name, values in sorted(inputs.items()):
            small = sorted(
                {data for data in values if len(data) <= MOST_BYTES}, key=lambda data: (len(data), data)
            )
            step = max(1, -(-len(small) // MOST_INPUTS))
            for number, data in enumerate(small[::step]):
                entry = tarfile.TarInfo(f"{name}/{number:02}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
                count += 1
    return count
