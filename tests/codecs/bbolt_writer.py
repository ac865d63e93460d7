"""Handwritten bbolt databases, and etcd's changes in them.

Other tests compare the reader with files that real servers write.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auditor.codecs.etcd.bbolt import fnv_1a
from auditor.codecs.protobuf.pb.etcd_key_value_pb2 import EtcdKeyValue

Pairs = Sequence[tuple[bytes, bytes]]


@dataclass
class _File:
    page_size: int
    per_branch: int
    pages: dict[int, bytes] = field(default_factory=dict)
    next: int = 3  # the free list is page 2

    def add(self, kind: int, elements: bytes, count: int) -> int:
        number = self.next
        overflow = max(0, -(-(16 + len(elements)) // self.page_size) - 1)
        page = struct.pack("<QHHI", number, kind, count, overflow) + elements
        self.pages[number] = page.ljust((1 + overflow) * self.page_size, b"\0")
        self.next += 1 + overflow
        return number

    def tree(self, pairs: Pairs, flag: int = 0) -> int:
        """Return the root page of a tree that has these pairs in this order."""
        parts: list[list[tuple[bytes, bytes]]] = [[]]
        size = 16
        for key, value in pairs:
            pair_bytes = 16 + len(key) + len(value)
            if parts[-1] and size + pair_bytes > self.page_size:
                parts.append([])
                size = 16
            parts[-1].append((key, value))
            size += pair_bytes
        level = [(part[0][0] if part else b"", self.add(2, leaf(part, flag), len(part))) for part in parts]
        while len(level) > 1:
            groups = [level[base : base + self.per_branch] for base in range(0, len(level), self.per_branch)]
            level = [(group[0][0], self.add(1, branch(group), len(group))) for group in groups]
        return level[0][1]


def leaf(pairs: Pairs, flag: int = 0) -> bytes:
    heads, tail = b"", b""
    for index, (key, value) in enumerate(pairs):
        position = 16 * (len(pairs) - index) + len(tail)
        heads += struct.pack("<IIII", flag, position, len(key), len(value))
        tail += key + value
    return heads + tail


def branch(children: Sequence[tuple[bytes, int]]) -> bytes:
    heads, tail = b"", b""
    for index, (key, page) in enumerate(children):
        heads += struct.pack("<IIQ", 16 * (len(children) - index) + len(tail), len(key), page)
        tail += key
    return heads + tail


def meta_page(number: int, page_size: int, root: int, pages: int, transaction: int) -> bytes:
    fields = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, page_size, 0, root, 0, 2, pages, transaction)
    page = struct.pack("<QHHI", number, 4, 0, 0) + fields + struct.pack("<Q", fnv_1a(fields))
    return page.ljust(page_size, b"\0")


def database(
    buckets: Mapping[bytes, Pairs],
    *,
    page_size: int = 1024,
    per_branch: int = 3,
    transaction: int = 7,
    inline: Sequence[bytes] = (),
    hashed: bool = True,
) -> bytes:
    """Return a database with these top-level buckets; those in ``inline`` are within their parent's leaf."""
    file = _File(page_size, per_branch)
    values = []
    for name, pairs in sorted(buckets.items()):
        if name in inline:
            page = struct.pack("<QHHI", 0, 2, len(pairs), 0) + leaf(pairs)
            values.append((name, struct.pack("<QQ", 0, 0) + page))
        else:
            values.append((name, struct.pack("<QQ", file.tree(pairs), 0)))
    root = file.tree(values, flag=1)
    metas = [
        meta_page(number, page_size, root, file.next, transaction - number) for number in (0, 1)
    ]  # as a snapshot has them
    free = struct.pack("<QHHI", 2, 16, 0, 0).ljust(page_size, b"\0")
    body = b"".join([*metas, free, *(page for _, page in sorted(file.pages.items()))])
    return body + (hashlib.sha256(body).digest() if hashed else b"")


def revision(main: int, sub: int = 0, deleted: bool = False) -> bytes:
    return struct.pack(">qcq", main, b"_", sub) + (b"t" if deleted else b"")


class History:
    """The successive changes of a store, and its final state."""

    def __init__(self) -> None:
        self.pairs: list[tuple[bytes, bytes]] = []
        self.state: dict[bytes, EtcdKeyValue] = {}
        self.main = 1

    def change(self, *changes: tuple[bytes, bytes | None], lease: int = 0) -> None:
        """Apply one transaction. None deletes a key."""
        self.main += 1
        for sub, (key, value) in enumerate(changes):
            before = self.state.get(key)
            if value is None:
                self.state.pop(key, None)
                record = EtcdKeyValue(key=key)
            else:
                record = EtcdKeyValue(
                    key=key,
                    create_revision=before.create_revision if before else self.main,
                    mod_revision=self.main,
                    version=before.version + 1 if before else 1,
                    value=value,
                )
                if lease:
                    record.lease = lease
                self.state[key] = record
            self.pairs.append((revision(self.main, sub, value is None), record.SerializeToString()))

    def database(self, **options: object) -> bytes:
        """Return the file that a server with this history would keep."""
        return database({b"key": self.pairs, b"meta": [(b"consistent_index", bytes(8))]}, **options)  # type: ignore[arg-type]
