"""Whether a JSON value has the shape of a type: for files that may be damaged, or another program's.

`require_shape` takes dataclasses, TypedDicts, lists, tuples, dicts by text, unions and plain types, as
annotations have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict


def require_shape(value: Any, kind: Any, where: str) -> None:
    """Refuse a value that is not of this type, or a part of it that is not; ``where`` is its name.

    >>> require_shape({"a": [1, "2"]}, dict[str, list[int]], "file")
    Traceback (most recent call last):
    ValueError: file.a.1 is not a number: '2'

    Raises:
        ValueError: it is not; the message names the part.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        # A union here is a type or None.
        [other] = [part for part in parts if part is not type(None)]
        if value is not None:
            require_shape(value, other, where)
    elif origin in (list, tuple):
        _require(value, list, where)
        for number, each in enumerate(value):
            require_shape(each, parts[0], f"{where}.{number}")
    elif origin is dict or origin is Mapping:
        _require(value, dict, where)
        for key, each in value.items():
            require_shape(each, parts[1], f"{where}.{key}")
    elif is_dataclass(kind) or is_typeddict(kind):
        _require(value, dict, where)
        for name, part in _hints(kind).items():
            if name not in value:
                raise ValueError(f"{where} has no {name}")
            require_shape(value[name], part, f"{where}.{name}")
    elif kind is not Any:
        _require(value, kind, where)


_NAMES = {int: "a number", str: "a text", bool: "true or false", list: "a list", dict: "an object"}


def _require(value: Any, kind: type, where: str) -> None:
    # True is an int to Python, and no number to JSON.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{where} is not {_NAMES.get(kind, kind.__name__)}: {value!r:.40}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
