r"""A Java properties file, such as a bookie's bk_server.conf.

    # a comment, ! another
    key = value         the first of =, : and white space ends the key
    key value \
        continued       an odd number of backslashes at its end continues a line

The escapes \t, \n, \r, \f and \uXXXX have their usual meaning. A backslash before any other character
stands for that character. If a key occurs several times, the first value counts. The server's reader
(commons-configuration) also returns the first value if it is asked for a single value.
"""

from __future__ import annotations

import re

from auditor.errors import DecodeError

MAX_BYTES = 1 << 22
"""Largest size of a configuration file, in bytes. A larger file is no configuration file."""

_KEY_PATTERN = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)", re.DOTALL)
_ESCAPE_PATTERN = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def decode(data: bytes) -> dict[str, str]:
    r"""Return the keys and values of a file. White space around a value is not part of it.

    >>> decode(b"# gc\ngcWaitTime=900000\nledgerDirectories : /a, \\\n    /b\n")
    {'gcWaitTime': '900000', 'ledgerDirectories': '/a, /b'}

    Raises `DecodeError` if the file is not text, or is longer than `MAX_BYTES`.
    """
    if len(data) > MAX_BYTES:
        raise DecodeError("properties", MAX_BYTES, f"{len(data):,} bytes; too large for a configuration file")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("properties", error.start, "is not UTF-8 text") from None
    properties: dict[str, str] = {}
    for line in _lines(text):
        match = _KEY_PATTERN.match(line)
        assert match is not None  # an empty key matches
        properties.setdefault(_unescape(match[1]), _unescape(line[match.end() :].rstrip()))
    return properties


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each joined with its continuation lines.

    The result contains no empty lines and no comments.
    """
    lines: list[str] = []
    open_line: str | None = None
    for raw_line in re.split(r"\r\n|\r|\n", text):
        line = raw_line.lstrip()
        if open_line is None and (not line or line[0] in "#!"):
            continue
        backslash_count = len(line) - len(line.rstrip("\\"))
        is_continued = backslash_count % 2 == 1
        open_line = (open_line or "") + (line[:-1] if is_continued else line)
        if not is_continued:
            lines.append(open_line)
            open_line = None
    return lines if open_line is None else [*lines, open_line]


def _unescape(text: str) -> str:
    def unescape_character(match: re.Match[str]) -> str:
        name = match[1]
        if name[0] == "u" and len(name) == 5:
            return chr(int(name[1:], 16))
        return _ESCAPED_CHARACTERS.get(name, name)

    return _ESCAPE_PATTERN.sub(unescape_character, text)
