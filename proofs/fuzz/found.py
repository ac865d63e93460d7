"""Inputs on which a reader once failed during fuzzing, each with the reader's current error message."""

from __future__ import annotations

import struct

FUZZ_FINDINGS: tuple[tuple[str, bytes, str | None], ...] = (
    # The offset in the error was beyond the end, because invalid characters had been replaced before.
    (
        "cookie",
        b'5\nbookieHost: "a\x8a\x8a\x8a\\z"\n',
        "cookie: bookieHost has an invalid escape (at byte 19)",
    ),
    # The offset in the error was the map's position in the header, which can be beyond the end.
    (
        "entry-log",
        struct.pack(">4siqi", b"BKLO", 1, 16364, 1).ljust(1024, b"\0"),
        "entry log: the file ends before the ledgers map, expected at byte 16364 (at byte 1024)",
    ),
    # Matching a pattern with many asterisks took minutes.
    (
        "toml-suppressions",
        b'[[suppress]]\nid = "ent' + b"*" * 61 + b'y-*?"\n',
        "./suppressions.toml: suppress entry 1: reason: missing",
    ),
    # Bytes of a command line that are not valid text raised an error of a library.
    ("uris", b"dump:///a\xff%20b", None),
)
