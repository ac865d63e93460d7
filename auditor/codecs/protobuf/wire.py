"""Protobuf's binary format.

The protobuf library parses messages. If it rejects a message, this module walks through the message to find
the first invalid byte.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError as WireError
from google.protobuf.message import Message

from auditor.errors import DecodeError

MAX_MESSAGE_BYTES = 16 << 20  # sixteen times what ZooKeeper carries in one znode by default

MessageT = TypeVar("MessageT", bound=Message)

_BROKEN_FIELD_REASON = "a field that is cut off or invalid"

_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_MAX_VARINT_BYTES = 10  # bytes of a 64-bit number, seven bits each
_MAX_TAG_BITS = 32


def parse(
    message_type: type[MessageT],
    data: bytes,
    format_name: str,
    start: int = 0,
    end: int | None = None,
    *,
    max_bytes: int = MAX_MESSAGE_BYTES,
) -> MessageT:
    """Read a message from ``data[start:end]``, which may have at most ``max_bytes`` bytes.

    Raises `DecodeError` at the first field that breaks the format, or at the end if a required field is
    absent. Offsets in errors count from the beginning of ``data``.

    >>> from auditor.codecs.protobuf.pb.underreplication_pb2 import ReplicasCheckFormat
    >>> parse(ReplicasCheckFormat, bytes.fromhex("088080babbc82e"), "check time").replicasCheckCTime
    1600000000000
    """
    end = len(data) if end is None else end
    if end - start > max_bytes:
        raise DecodeError(format_name, start + max_bytes, f"a message of more than {max_bytes} bytes")
    field_descriptions = cast(Descriptor, message_type.DESCRIPTOR)
    try:
        message = message_type.FromString(data[start:end])
    except WireError:
        raise DecodeError(
            format_name,
            *(_first_fault(data, start, end, field_descriptions) or (start, _BROKEN_FIELD_REASON)),
        ) from None
    # Python's library takes a map's text that is no UTF-8, and fails later, when its items are asked for.
    fault = _first_fault(data, start, end, field_descriptions) if _has_maps(field_descriptions) else None
    if fault is not None:
        raise DecodeError(format_name, *fault)
    require_fields(message, format_name, end)
    return message


def require_fields(message: Message, format_name: str, offset: int) -> None:
    """Raise `DecodeError` at ``offset`` if a message lacks required fields.

    The protobuf library itself raises no error for such a message.
    """
    if not message.IsInitialized():
        # The stubs leave the method out.
        missing_fields: list[str] = cast(Any, message).FindInitializationErrors()
        raise DecodeError(
            format_name, offset, f"required fields are missing: {', '.join(missing_fields[:3])}"
        )


def value_start(data: bytes, *fields: int) -> int:
    """Return the offset at which the value of a bytes or message field begins.

    ``fields`` are the numbers of the nested fields that lead to the value, outermost first. ``data`` must
    be a valid message that contains all these fields. If a field occurs twice, the last occurrence counts.

    >>> value_start(bytes.fromhex("0801 1a03 0a0161"), 3, 1)
    6
    """
    start, end = 0, len(data)
    for number in fields:
        offset, value_span = start, (start, end)
        while offset < end:
            tag = varint(data, offset, end)
            value_end = tag and _end_of_value(data, tag[1], end, tag[0] & 7)
            if tag is None or value_end is None:
                break
            if tag[0] == number << 3 | _BYTES:
                length = varint(data, tag[1], end)
                value_span = (length[1] if length else value_end, value_end)
            offset = value_end
        start, end = value_span
    return start


def find_bytes_field(
    data: bytes, number: int, format_name: str, start: int, end: int
) -> tuple[int, int, int] | None:
    """Return three offsets for the first bytes field with this number: its tag, its value, and its end.

    The message is ``data[start:end]``. ``data`` may contain only the beginning of the message, if
    everything before the field's value is there. Returns None if the message ends without such a field.

    >>> find_bytes_field(bytes.fromhex("0801 1a8001 ff"), 3, "answer", 0, 133)
    (2, 5, 133)

    Raises `DecodeError` if a field is cut, extends beyond the message, or is invalid.
    """
    offset = start
    while offset < min(end, len(data)):
        tag = varint(data, offset, len(data))
        if tag is None or not 8 <= tag[0] < 1 << _MAX_TAG_BITS:
            raise DecodeError(format_name, offset, _BROKEN_FIELD_REASON)
        if tag[0] == number << 3 | _BYTES:
            length = varint(data, tag[1], len(data))
            if length is None or length[1] + length[0] > end:
                raise DecodeError(format_name, offset, "a field that is cut off, or longer than its message")
            return offset, length[1], length[1] + length[0]
        value_end = _end_of_value(data, tag[1], min(end, len(data)), tag[0] & 7)
        if value_end is None:
            raise DecodeError(format_name, offset, _BROKEN_FIELD_REASON)
        offset = value_end
    if offset < end:
        raise DecodeError(format_name, offset, f"cut off: {end - offset} more bytes were announced")
    return None


def varint(data: bytes, offset: int, end: int) -> tuple[int, int] | None:
    """Return the number at ``offset``, and the offset after it.

    Returns None if the number is cut or longer than ten bytes.

    >>> varint(bytes.fromhex("8e01"), 0, 2)
    (142, 2)
    """
    value = 0
    for byte_index in range(min(_MAX_VARINT_BYTES, end - offset)):
        byte = data[offset + byte_index]
        value |= (byte & 0x7F) << 7 * byte_index
        if byte < 0x80:
            return value & (2**64 - 1), offset + byte_index + 1
    return None


def encode_varint(number: int) -> bytes:
    """Return a nonnegative number as varint bytes.

    >>> encode_varint(142).hex()
    '8e01'
    """
    septets = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([*(septet | 0x80 for septet in septets[:-1]), septets[-1]])


def _first_fault(data: bytes, offset: int, end: int, message_type: Descriptor) -> tuple[int, str] | None:
    """Return the offset of the first broken field, and the reason. Returns None if no field is broken.

    Nested messages are examined only if their fields are in the schema. Java's library accepts strings that
    are not UTF-8, except in a map. So does this function.
    """
    is_map_entry = bool(message_type.GetOptions().map_entry)
    open_groups: list[int] = []
    while offset < end:
        tag = varint(data, offset, end)
        if tag is None or not 8 <= tag[0] < 1 << _MAX_TAG_BITS:
            return offset, _BROKEN_FIELD_REASON
        number, wire_type = tag[0] >> 3, tag[0] & 7
        value_end = _end_of_value(data, tag[1], end, wire_type)
        if value_end is None or (
            wire_type == _END_GROUP and (not open_groups or open_groups.pop() != number)
        ):
            return offset, _BROKEN_FIELD_REASON
        if wire_type == _GROUP:
            open_groups.append(number)
        field = None if open_groups else message_type.fields_by_number.get(number)
        length = varint(data, tag[1], end) if wire_type == _BYTES else None
        if field is not None and length is not None:
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                inner_fault = _first_fault(data, length[1], value_end, cast(Descriptor, field.message_type))
                if inner_fault is not None:
                    return inner_fault
            elif (
                is_map_entry
                and field.type == FieldDescriptor.TYPE_STRING
                and not is_text(data[length[1] : value_end])
            ):
                return offset, "a text in a map is not UTF-8"
        offset = value_end
    return (end, _BROKEN_FIELD_REASON) if open_groups else None


@cache
def _has_maps(message_type: Descriptor) -> bool:
    entry_types = (field.message_type for field in message_type.fields)
    return any(entry_type is not None and entry_type.GetOptions().map_entry for entry_type in entry_types)


def is_text(value: bytes) -> bool:
    """Return whether bytes are UTF-8.

    >>> is_text(b"bk1"), is_text(b"bk\\xff")
    (True, False)
    """
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _end_of_value(data: bytes, offset: int, end: int, wire_type: int) -> int | None:
    value_end: int | None = offset
    if wire_type == _VARINT:
        number = varint(data, offset, end)
        value_end = number and number[1]
    elif wire_type == _BYTES:
        length = varint(data, offset, end)
        value_end = length and length[0] + length[1]
    elif wire_type in (_FIXED64, _FIXED32):
        value_end = offset + (8 if wire_type == _FIXED64 else 4)
    elif wire_type not in (_GROUP, _END_GROUP):
        return None
    return value_end if value_end is not None and value_end <= end else None
