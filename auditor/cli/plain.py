"""Decoded values as plain JSON values."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any


def jsonable(value: Any) -> Any:
    """Turn dataclasses into objects, tuples into lists, bytes into ``{"base64": ...}``.

    >>> jsonable({"a": (b"x", None)})
    {'a': [{'base64': 'eA=='}, None]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: jsonable(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: jsonable(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value
