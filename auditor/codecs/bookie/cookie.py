r"""A bookie's cookie, as stored in the metadata store and in ``current/VERSION`` of each of its directories.

    5                                   layout, in decimal; 5 since 4.16, 4 since 4.2
    bookieHost: "bk1:3181"              protobuf text from here on
    journalDir: "/j1,/j2"
    ledgerDirs: "2\t/l1\t/l2"           number of directories, then each after a tab
    instanceId: "0926c64b-..."          may be absent
    indexDirs: "1\t/i1"                 may be absent; always absent before layout 5

Layout 3 (4.1) has the first three values as plain lines. Layouts 1 and 2 have nothing after the number. The
server refuses to start on layouts 1 and 2, and this module treats them as damage. A server can also write
the number 5 above the lines of layout 3. Neither the server nor this module can read such a cookie.
"""

from __future__ import annotations

import re

from auditor.codecs.protobuf import text as proto_text
from auditor.codecs.protobuf.pb.cookie_pb2 import CookieFormat
from auditor.errors import DecodeError
from auditor.model.cookie import Cookie

FORMAT_NAME = "cookie"
MAX_COOKIE_BYTES = proto_text.MAX_TEXT_BYTES

_LINES_LAYOUT = 3
_LINE_PATTERN = re.compile(rb"([^\r\n]*+)(?:\r\n|\r|\n|\Z)")
_LAYOUT_NUMBER = re.compile(rb"[+-]?0{0,20}[0-9]{1,10}")
# What Java's trim takes away: everything up to the blank.
_JAVA_WHITESPACE = bytes(range(0x21))


def decode(data: bytes) -> Cookie:
    r"""Read a cookie.

    Raises `DecodeError` if its format is invalid, or if its layout version is so old that the cookie has only
    this number. Like the server, the function does not check the number of directories before their paths.

    >>> decode(b'4\nbookieHost: "a" journalDir: "/j" ledgerDirs: "1\\t/l"').ledger_dirs
    ('/l',)
    """
    if len(data) > MAX_COOKIE_BYTES:
        raise DecodeError(FORMAT_NAME, MAX_COOKIE_BYTES, f"text of more than {MAX_COOKIE_BYTES} bytes")
    first_line = _LINE_PATTERN.match(data)
    assert first_line is not None  # matches nothing at all, if need be
    number = first_line[1].strip(_JAVA_WHITESPACE)
    layout = int(number) if _LAYOUT_NUMBER.fullmatch(number) else None
    if layout is None or not -(2**31) <= layout < 2**31:
        raise DecodeError(FORMAT_NAME, 0, "no layout number")
    if layout < _LINES_LAYOUT:
        raise DecodeError(FORMAT_NAME, 0, f"layout {layout} does not contain the bookie's id and directories")
    if layout == _LINES_LAYOUT:
        return _decode_lines(data, first_line.end())
    message = proto_text.parse(CookieFormat, data, FORMAT_NAME, first_line.end())
    return Cookie(
        layout=layout,
        bookie_id=message.bookieHost,
        journal_dirs=message.journalDir,
        ledger_dirs=directories(message.ledgerDirs),
        index_dirs=directories(message.indexDirs) if message.indexDirs else None,
        instance_id=message.instanceId or None,
    )


def read(data: bytes) -> tuple[Cookie | None, str | None]:
    """Read a cookie without raising an error for a damaged one.

    Returns the cookie and None. If the cookie cannot be read, returns None and the reason.

    >>> read(b"?")
    (None, 'cookie: no layout number (at byte 0)')
    """
    try:
        return decode(data), None
    except DecodeError as error:
        return None, str(error)


def directories(counted_paths: str) -> tuple[str, ...]:
    r"""Return the paths in a cookie's list of directories, in configured order.

    The list begins with the number of directories, which is dropped.

    >>> directories("2\t/l1\t/l2")
    ('/l1', '/l2')
    """
    paths = counted_paths[counted_paths.find("\t") + 1 :].rstrip("\t")
    return tuple(paths.split("\t"))


def _decode_lines(data: bytes, start: int) -> Cookie:
    lines: list[str] = []
    for missing_field in ("bookie id", "journal directory", "list of ledger directories"):
        line = _LINE_PATTERN.match(data, start)
        if line is None or line.start() == len(data):
            raise DecodeError(FORMAT_NAME, len(data), f"the text ends before the {missing_field}")
        lines.append(line[1].decode("utf-8", "replace"))
        start = line.end()
    bookie_id, journal_dirs, ledger_dirs = lines
    return Cookie(_LINES_LAYOUT, bookie_id, journal_dirs, directories(ledger_dirs))
