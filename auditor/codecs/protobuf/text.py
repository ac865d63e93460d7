r"""Protobuf's text format as BookKeeper uses it: metadata of format 2, cookies, under-replication marks.

    quorumSize: 2
    segment {
      ensembleMember: "bk1:3181"
      firstEntryId: 0
    }
    password: "pw\"\303\251\n"

The server writes one field per line. It reads a wider form (Google's parser, in 4.17.2), and so does this
module. This form allows comments, ``<>`` for ``{}``, either kind of quote, and a comma or semicolon after a
field. It also allows hexadecimal and octal numbers, and a colon before a message. Repeated fields may be
lists. Strings may have several parts. Enum values may be numbers. If a scalar field is given twice, the last
value counts. Unknown fields count as damage. This module exists because the protobuf library's own parser is
slow and reports no offset.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn, TypeVar, cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from auditor.codecs.protobuf.wire import require_fields
from auditor.errors import DecodeError

MAX_TEXT_BYTES = 4 << 20  # four times what ZooKeeper carries in one znode by default

MessageT = TypeVar("MessageT", bound=Message)

_SPACE_PATTERN = re.compile(rb"(?:[ \t\n\x0b\f\r]++|#[^\r\n]*+)*+")
_TOKEN_PATTERN = re.compile(
    rb"[A-Za-z_][0-9A-Za-z_+\-]*+"
    rb"|\.?[0-9+\-][0-9A-Za-z_.+\-]*+"
    rb'|"(?:[^"\n\\]++|\\[^\n])*+"'
    rb"|'(?:[^'\n\\]++|\\[^\n])*+'"
    rb"|[\x00-\xff]"
)
_INTEGER_PATTERN = re.compile(rb"(-?)(?:0x([0-9a-fA-F]{1,16})|0([0-7]{0,22})|([1-9][0-9]{0,18}))")
_ESCAPE_PATTERN = re.compile(
    rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv\\'\"?]))"
)
_CODE_BY_ESCAPE = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11}
_CLOSING_BRACKETS = {b"{": b"}", b"<": b">"}


def parse(message_type: type[MessageT], data: bytes, format_name: str, start: int = 0) -> MessageT:
    """Read a message of type ``message_type`` from the text that begins at byte ``start``.

    Raises `DecodeError` at the first byte that breaks the format, or at the end if a required field is
    absent. Offsets in errors count from the beginning of ``data``. Errors never quote the text.

    >>> from auditor.codecs.protobuf.pb.underreplication_pb2 import LockDataFormat
    >>> parse(LockDataFormat, b'bookieId: "host-a"', "lock").bookieId
    'host-a'
    """
    if len(data) - start > MAX_TEXT_BYTES:
        raise DecodeError(format_name, start + MAX_TEXT_BYTES, f"text of more than {MAX_TEXT_BYTES} bytes")
    message = message_type()
    _Parser(data, format_name, start).parse_message(message, closing=b"")
    require_fields(message, format_name, len(data))
    return message


def unescape(text: bytes) -> bytes:
    r"""Return the bytes of a string literal. ``text`` is the literal without its quotes.

    Raises `ValueError` for an invalid escape. The only argument of this error is the offset in ``text``.

    >>> unescape(rb"a\tb\303\251")
    b'a\tb\xc3\xa9'
    """
    if b"\\" not in text:
        return _replace_broken_utf8(text)
    parts: list[bytes] = []
    offset = 0
    while (slash := text.find(b"\\", offset)) >= 0:
        escape = _ESCAPE_PATTERN.match(text, slash)
        if escape is None:
            raise ValueError(slash)
        parts += (_replace_broken_utf8(text[offset:slash]), _unescape_match(escape, slash))
        offset = escape.end()
    return b"".join((*parts, _replace_broken_utf8(text[offset:])))


def _replace_broken_utf8(text: bytes) -> bytes:
    """Replace invalid UTF-8 in the same way as the server."""
    return text if text.isascii() else text.decode("utf-8", "replace").encode()


def _unescape_match(escape: re.Match[bytes], offset: int) -> bytes:
    octal_byte, hex_byte, short_hex, long_hex, plain_character = escape.groups()
    if plain_character is not None:
        return bytes([_CODE_BY_ESCAPE.get(plain_character, plain_character[0])])
    if octal_byte is not None:
        return bytes([int(octal_byte, 8) & 0xFF])
    if hex_byte is not None:
        return bytes([int(hex_byte, 16)])
    code_point = int(short_hex or long_hex, 16)
    if code_point > 0x10FFFF or 0xD800 <= code_point < 0xE000:
        raise ValueError(offset)
    return chr(code_point).encode()


class _Parser:
    """A parser that reads the text once, with one token of look-ahead.

    The schema limits the depth of nested messages, so that no text can make the parser recurse deeper.
    """

    def __init__(self, data: bytes, format_name: str, start: int) -> None:
        self.data = data
        self.format_name = format_name
        self.offset = start
        self.token = b""
        self.advance(start)

    def advance(self, end: int) -> None:
        white_space = _SPACE_PATTERN.match(self.data, end)
        assert white_space is not None  # matches nothing at all, if need be
        self.offset = white_space.end()
        token = _TOKEN_PATTERN.match(self.data, self.offset)
        self.token = token[0] if token else b""

    def take_token(self) -> bytes:
        token = self.token
        self.advance(self.offset + len(token))
        return token

    def take_if(self, *tokens: bytes) -> bool:
        if self.token not in tokens:
            return False
        self.take_token()
        return True

    def fail(self, reason: str, offset: int | None = None) -> NoReturn:
        raise DecodeError(self.format_name, self.offset if offset is None else offset, reason)

    def parse_message(self, message: Message, closing: bytes) -> None:
        fields = message.DESCRIPTOR.fields_by_name
        while self.token != closing:
            if not self.token:
                self.fail(f"the text ends before {closing.decode()!r}")
            name = self.token.decode("latin-1")
            field = cast("FieldDescriptor | None", fields.get(name))
            if field is None:
                # Not repeated: where a quote is broken, this can be a piece of a password.
                self.fail(f"the name is not a field of {message.DESCRIPTOR.name}")
            self.take_token()
            if not self.take_if(b":") and field.type != FieldDescriptor.TYPE_MESSAGE:
                self.fail(f"{name} has no colon")
            self.parse_values(message, field)
            self.take_if(b";", b",")

    def parse_values(self, message: Message, field: FieldDescriptor) -> None:
        if not (field.is_repeated and self.take_if(b"[")):
            self.parse_value(message, field)
        elif not self.take_if(b"]"):
            self.parse_value(message, field)
            while not self.take_if(b"]"):
                if not self.take_if(b","):
                    self.fail(f"the list {field.name} has neither a comma nor a closing bracket")
                self.parse_value(message, field)

    def parse_value(self, message: Message, field: FieldDescriptor) -> None:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            closing = _CLOSING_BRACKETS.get(self.token)
            if closing is None:
                self.fail(f"{field.name} has no opening brace")
            self.take_token()
            self.parse_message(getattr(message, field.name).add(), closing)
            self.take_token()
            return
        value = self.parse_scalar(field)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)

    def parse_scalar(self, field: FieldDescriptor) -> Any:
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            value = self.parse_string(field)
            return value if field.type == FieldDescriptor.TYPE_BYTES else value.decode("utf-8", "replace")
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self.parse_enum(field)
        return self.parse_integer(field, 31 if field.type == FieldDescriptor.TYPE_INT32 else 63)

    def parse_string(self, field: FieldDescriptor) -> bytes:
        parts: list[bytes] = []
        while self.token[:1] in (b'"', b"'"):
            if len(self.token) == 1:
                self.fail(f"{field.name} has no closing quote")
            try:
                parts.append(unescape(self.token[1:-1]))
            except ValueError as error:
                self.fail(f"{field.name} has an invalid escape", self.offset + 1 + int(error.args[0]))
            self.take_token()
        if not parts:
            self.fail(f"{field.name} is not a quoted string")
        return b"".join(parts)

    def parse_integer(self, field: FieldDescriptor, number_bits: int) -> int:
        match = _INTEGER_PATTERN.fullmatch(self.token)
        if match is None:
            self.fail(f"{field.name} is not an integer")
        sign, hexadecimal, octal, decimal = match.groups()
        value = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else int(octal or b"0", 8)
        value = -value if sign else value
        if not -(1 << number_bits) <= value < 1 << number_bits:
            self.fail(f"{field.name} does not fit in {number_bits + 1} bits")
        self.take_token()
        return value

    def parse_enum(self, field: FieldDescriptor) -> int:
        offset = self.offset
        values = cast(EnumDescriptor, field.enum_type)
        if self.token and self.token[:1] in b"0123456789+-":
            enum_value = values.values_by_number.get(self.parse_integer(field, 31))
        else:
            enum_value = values.values_by_name.get(self.take_token().decode("latin-1"))
        if enum_value is None:
            self.fail(f"{field.name} has an unknown value", offset)
        return enum_value.number
