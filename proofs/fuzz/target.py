"""What is fuzzed: a function of bytes, the errors that it may end with, and how an execution is judged."""

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
"""Golden bytes of one target."""


@dataclass(frozen=True)
class Target:
    """A reader: its name, golden bytes to begin from, and a function of bytes.

    ``refusals`` are the errors that it says it raises. Bytes of a `DecodeError` count from the beginning of
    the input where ``offsets``. ``most`` is the length of an input.
    """

    name: str
    seeds: Callable[[], Iterable[bytes]]
    run: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (AuditorError,)
    offsets: bool = True
    most: int = 1 << 16

    def execute(self, data: bytes) -> Exception | None:
        """Run once; the refusal, or None. Anything else that it ends with escapes."""
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
        """The golden bytes to begin from: those that are read before those that are refused."""
        read: dict[bytes, None] = {}
        refused: dict[bytes, None] = {}
        for data in self.seeds():
            if len(data) <= self.most:
                (read if self.execute(data) is None else refused)[data] = None
        return [*spread(read, MOST_READ), *spread(refused, MOST_REFUSED)]


@cache
def scratch() -> Path:
    """A directory of this process for readers of files; in memory where there is such a place."""
    shared = Path("/dev/shm")
    home = tempfile.TemporaryDirectory(prefix="fuzz-", dir=shared if shared.is_dir() else None)
    _KEPT.append(home)
    return Path(home.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def place(name: str, data: bytes) -> Path:
    """A file of the scratch directory with these bytes."""
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def fresh(name: str) -> Path:
    """An empty directory."""
    path = scratch() / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def mutated(corpus: Sequence[bytes], chance: random.Random, most: int) -> bytes:
    """An input of the corpus with one to four changes."""
    data = bytearray(chance.choice(corpus))
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        way = chance.randrange(6)
        if way == 0:
            del data[at : at + chance.choice((1, 2, 4, 8, 64, len(data)))]
        elif way == 1 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif way == 2:
            number = chance.choice(_NUMBERS)
            width = chance.choice((1, 2, 4, 8))
            octets = (number % (1 << 8 * width)).to_bytes(width, chance.choice(("big", "little")))
            data[at : at + width] = octets
        elif way == 3:
            data[at:at] = chance.choice(_PIECES) * chance.choice((1, 1, 40))
        elif way == 4:
            other = chance.choice(corpus)
            start = chance.randint(0, len(other))
            data[at : at + chance.choice((0, 16, len(data)))] = other[
                start : start + chance.choice((8, 64, len(other)))
            ]
        elif at < len(data):
            data[at] = chance.randrange(256)
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
