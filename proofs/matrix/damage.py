"""Ten kinds of damage to a file, a znode or a line of a dump."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

HUGE = 1 << 28
"""Bytes that damage appends to make a huge file. The file is sparse, so it needs no disk space."""

HUGE_VALUE = 900_000
"""Bytes of a huge value. ZooKeeper accepts up to 1 MB."""

YEAR_S = 365 * 86_400
FOREIGN = b"\x7fELF\x02\x01\x01\0" + bytes(range(256)) * 8
"""Bytes of another program's file."""


@dataclass(frozen=True)
class Damage:
    """The damaged parts, as far as findings can name them. If ``whole`` is true, everything may be uncertain.

    ``names`` has bookie ids that only a damaged record contains. Metadata of format 1 are text. A part of a
    bookie id is text too, so damage can leave such a part.
    """

    bookies: frozenset[str] = frozenset()
    ledgers: frozenset[int] = frozenset()
    whole: bool = False
    names: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    def __or__(self, other: Damage) -> Damage:
        return Damage(
            self.bookies | other.bookies,
            self.ledgers | other.ledgers,
            self.whole or other.whole,
            self.names | other.names,
            self.paths + other.paths,
        )


SOUND = Damage()


def damaged_bytes(kind: str, data: bytes, replacement: bytes, random: Random) -> bytes:
    """Return a damaged copy of a value. The kind of damage must be one that leaves a value.

    The kind ``swapped`` returns ``replacement``, another value of the same type.
    """
    if kind == "byte":
        pos = random.randrange(len(data)) if data else 0
        return data[:pos] + bytes([data[pos] ^ 1 << random.randrange(8)]) + data[pos + 1 :] if data else data
    results: Mapping[str, Callable[[], bytes]] = {
        "empty": lambda: b"",
        "cut": lambda: data[: len(data) * 3 // 5],
        "foreign": lambda: FOREIGN,
        "swapped": lambda: replacement,
        "older": lambda: data[: len(data) // 2],
        "huge": lambda: data + b"\0" * HUGE_VALUE,
    }
    return results[kind]()


def damage_file(kind: str, path: Path, partner: Path, random: Random) -> None:
    """Damage a file.

    The kind ``swapped`` exchanges it with ``partner``, which may be the same file. The kind ``unreadable``
    replaces it with a symbolic link to itself, which even root cannot open.
    """
    stat = path.stat()
    if kind == "missing":
        path.unlink()
    elif kind == "unreadable":
        path.unlink()
        path.symlink_to(path.name)
    elif kind == "huge":
        os.truncate(path, stat.st_size + HUGE)
    elif kind == "swapped":
        scratch = path.with_name(f"{path.name}.swapped")
        path.rename(scratch)
        if partner != path:
            partner.rename(path)
            scratch.rename(partner)
        else:
            scratch.rename(path)
    else:
        path.write_bytes(damaged_bytes(kind, path.read_bytes(), b"", random))
    if kind == "older":
        os.utime(path, (stat.st_atime - YEAR_S, stat.st_mtime - YEAR_S))
    elif kind not in ("missing", "unreadable", "swapped"):
        os.utime(path, (stat.st_atime, stat.st_mtime))


def damage_dump(kind: str, dump: Path, paths: Sequence[str], random: Random) -> list[str]:
    """Damage the line of one ledger in a dump; return the paths whose lines changed."""
    lines = dump.read_bytes().splitlines(keepends=True)
    index = {_record(line).get("path"): number for number, line in enumerate(lines)}
    path, partner = random.sample([path for path in paths if path in index], 2)
    record, another = json.loads(lines[index[path]]), json.loads(lines[index[partner]])
    key = "data" if "data" in record else "value"
    if kind == "missing":
        lines[index[path]] = b""
    elif kind == "unreadable":
        lines[index[path]] = lines[index[path]][: len(lines[index[path]]) // 2] + b"\n"
    else:
        if kind == "swapped":
            another[key], own = record[key], another[key]
            lines[index[partner]] = _line(another)
            record[key] = own
        else:
            data = damaged_bytes(kind, base64.b64decode(record[key]), b"", random)
            record[key] = base64.b64encode(data).decode()
        lines[index[path]] = _line(record)
    stat = dump.stat()
    dump.write_bytes(b"".join(lines))
    os.utime(dump, (stat.st_atime, stat.st_mtime))
    return [path, partner] if kind == "swapped" else [path]


def damage_znode(kind: str, client: Any, paths: Sequence[str], random: Random) -> list[str]:
    """Damage the znode of one ledger in a running ZooKeeper; return the paths that changed."""
    path, partner = random.sample(list(paths), 2)
    data, _ = client.get(path)
    if kind == "missing":
        client.delete(path)
    elif kind == "unreadable":
        from kazoo.security import make_digest_acl

        client.set_acls(path, [make_digest_acl("nobody", "else", all=True)])
    elif kind == "swapped":
        another, _ = client.get(partner)
        client.set(path, another)
        client.set(partner, data)
        return [path, partner]
    else:
        client.set(path, damaged_bytes(kind, data, b"", random)[:HUGE_VALUE])
    return [path]


def _record(line: bytes) -> dict[str, Any]:
    """Parse a line of a dump. Returns an empty record if earlier damage has cut the line."""
    try:
        record: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return record


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record) + "\n").encode()
