"""A strict reader of the JSON values in Pulsar's metadata. It reports where a value is damaged."""

from __future__ import annotations

import json
from typing import Any

from auditor.errors import DecodeError


def read_json(data: bytes, format_name: str) -> Any:
    """Read one JSON value. ``format_name`` is the name of the value in errors.

    >>> read_json(b'{"a": [1]}', "racks")
    {'a': [1]}

    Raises:
        DecodeError: ``data`` is not JSON, or contains more than one value.
    """
    try:
        text = data.decode()
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise DecodeError(format_name, error.start, "is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise DecodeError(format_name, len(text[: error.pos].encode()), f"is not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:  # deeply nested; a number of thousands of digits
        raise DecodeError(format_name, 0, f"is not JSON: {error}") from None


def offset_of(data: bytes, name: str | None) -> int:
    """Return the offset of a field's name in a JSON text.

    Returns 0 if ``name`` is None, or if the text contains the name with escapes.
    """
    return 0 if name is None else max(0, data.find(json.dumps(name, ensure_ascii=False).encode()))
