"""A fuzz target: a function of bytes, the errors that it may raise, and the checks of those errors."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from auditor.errors import AuditorError, DecodeError
from proofs.fuzz.golden import spread

LONGEST_MESSAGE = 20_000
MOST_READ, MOST_REFUSED = 100, 20
"""Largest numbers of accepted and of refused golden values of one target."""


@dataclass(frozen=True)
class Target:
    """A reader: its name, golden bytes to start from, and a function of bytes.

    ``refusals`` are the errors that it may raise. If ``offsets`` is true, the offset of a `DecodeError`
    counts from the beginning of the input. ``most`` is the largest length of an input in bytes.
    """

    name: str
    seeds: Callable[[], Iterable[bytes]]
    run: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (AuditorError,)
    offsets: bool = True
    most: int = 1 << 16

    def execute(self, data: bytes) -> Exception | None:
        """Run the reader once; return the declared error, or None. Undeclared errors escape."""
        try:
            self.run(data)
        except self.refusals as error:
            refusal = error
        else:
            return None
        message = str(refusal)
        assert message, f"{type(refusal).__name__} without a message"
        assert len(message) < LONGEST_MESSAGE, f"a message of {len(message)} characters"
        if self.offsets and isinstance(refusal, DecodeError):
            assert 0 <= refusal.offset <= len(data), f"byte {refusal.offset} of {len(data)}"
        return refusal

    def beginnings(self) -> list[bytes]:
        """Return the golden bytes to start from: accepted values before refused ones."""
        read: dict[bytes, None] = {}
        refused: dict[bytes, None] = {}
        for data in self.seeds():
            if len(data) <= self.most:
                (read if self.execute(data) is None else refused)[data] = None
        return [*spread(read, MOST_READ), *spread(refused, MOST_REFUSED)]


@cache
def scratch() -> Path:
    """Return a temporary directory of this process for readers of files, in memory if possible."""
    shared = Path("/dev/shm")
    home = tempfile.TemporaryDirectory(prefix="fuzz-", dir=shared if shared.is_dir() else None)
    _DIRECTORIES.append(home)
    return Path(home.name)


_DIRECTORIES: list[tempfile.TemporaryDirectory[str]] = []


def place(name: str, data: bytes) -> Path:
    """Write a file in the scratch directory; return its path."""
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def make_empty(name: str) -> Path:
    """Make an empty directory in the scratch directory. Replace an existing one."""
    path = scratch() / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def mutate(corpus: Sequence[bytes], chance: random.Random, most: int) -> bytes:
    """Return a random input of the corpus after one to four random changes."""
    data = bytearray(chance.choice(corpus))
    for _ in range(chance.randint(1, 4)):
        offset = chance.randint(0, len(data))
        way = chance.randrange(6)
        if way == 0:
            del data[offset : offset + chance.choice((1, 2, 4, 8, 64, len(data)))]
        elif way == 1 and offset < len(data):
            data[offset] ^= 1 << chance.randrange(8)
        elif way == 2:
            number = chance.choice(_NUMBERS)
            width = chance.choice((1, 2, 4, 8))
            octets = (number % (1 << 8 * width)).to_bytes(width, chance.choice(("big", "little")))
            data[offset : offset + width] = octets
        elif way == 3:
            data[offset:offset] = chance.choice(_PIECES) * chance.choice((1, 1, 40))
        elif way == 4:
            other_input = chance.choice(corpus)
            start = chance.randint(0, len(other_input))
            data[offset : offset + chance.choice((0, 16, len(data)))] = other_input[
                start : start + chance.choice((8, 64, len(other_input)))
            ]
        elif offset < len(data):
            data[offset] = chance.randrange(256)
    return bytes(data[:most])


_NUMBERS = (
    0,
    1,
    -1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**63,
)
_PIECES = (
    b"\0",
    b"\xff",
    b"[",
    b"{",
    b'"',
    b"\\",
    b"9",
    b"-",
    b"\n",
    b"/",
    b"..",
    b"\x1b[31m",
    b"\xed\xa0\x80",
)
