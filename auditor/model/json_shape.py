"""Conversion of JSON values to Python types, and JSON Schemas of these types.

The types are dataclasses, TypedDicts, lists, tuples, dicts with text keys, unions with None, and plain types.
An ``Annotated`` type adds further keywords to its schema, each as a `SchemaFacet`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text.

    >>> parse_json('{"a": 1}')
    {'a': 1}

    Raises:
        ValueError: the text is not JSON, or it is nested too deeply for Python.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None


class SchemaFacet(NamedTuple):
    """A keyword of JSON Schema and its value.

    A value that is a list in the schema, as for ``enum``, is a tuple here.
    """

    keyword: str
    value: Any


def about(description: str) -> SchemaFacet:
    """Return the schema keyword with the description of a value."""
    return SchemaFacet("description", description)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Start of 1970, UTC, from which times in milliseconds are counted."""

Count = Annotated[int, SchemaFacet("minimum", 0)]
TimeMs = Annotated[int, about("milliseconds since 1970, UTC")]
_DECIMAL_PATTERN = SchemaFacet("pattern", "^(0|-?[1-9][0-9]*)$")
DecimalId = Annotated[
    int | None,
    SchemaFacet("type", ("string", "null")),
    _DECIMAL_PATTERN,
    about("id in decimal digits; null: there is no ledger"),
]
"""A scope or ledger id; JSON has it as text, because JSON numbers cannot hold all ids exactly."""


def read_value(value: Any, value_type: Any, value_name: str, allows_missing_keys: bool = False) -> Any:
    """Convert a parsed JSON or TOML value to a Python type. Objects become dataclasses.

    >>> read_value({"a": [1, "2"]}, dict[str, list[int]], "file")
    Traceback (most recent call last):
    ValueError: file.a.1 is not a number: '2'

    Args:
        value: the parsed value.
        value_type: the type to convert to.
        value_name: name of the value in messages.
        allows_missing_keys: follow the rules for TOML files. A missing key then stands for None or an empty
            tuple, and an unknown key is an error.

    Raises:
        ValueError: the value does not have this type. The message names the wrong part.
    """
    origin, type_arguments = get_origin(value_type), get_args(value_type)
    if origin in (Union, UnionType):
        # A union here is a type or None.
        [inner_type] = [type_argument for type_argument in type_arguments if type_argument is not type(None)]
        return None if value is None else read_value(value, inner_type, value_name, allows_missing_keys)
    if origin in (list, tuple):
        _require_type(value, list, value_name)
        return origin(
            read_value(child_value, type_arguments[0], f"{value_name}.{index}", allows_missing_keys)
            for index, child_value in enumerate(value)
        )
    if origin is dict or origin is Mapping:
        _require_type(value, dict, value_name)
        return {
            key: read_value(child, type_arguments[1], f"{value_name}.{key}", allows_missing_keys)
            for key, child in value.items()
        }
    if is_dataclass(value_type) or is_typeddict(value_type):
        _require_type(value, dict, value_name)
        return value_type(
            **_read_fields(value, value_type, f"{value_name}." if value_name else "", allows_missing_keys)
        )
    if value_type is int and isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value_name}: the time has no time zone; add one, such as Z")
        return (value - EPOCH) // timedelta(milliseconds=1)
    if isinstance(value_type, type) and issubclass(value_type, StrEnum):
        if value not in [*value_type]:
            raise ValueError(f"{value_name}: {value!r:.60} is not one of {', '.join(value_type)}")
        return value_type(value)
    if value_type is not Any:
        _require_type(value, value_type, value_name)
    return value


def _read_fields(
    value: dict[str, Any], value_type: Any, value_name: str, allows_missing_keys: bool
) -> dict[str, Any]:
    type_hints, field_values = _type_hints(value_type), {}
    if allows_missing_keys and (
        unknown_key := next((name for name in value if name not in type_hints), None)
    ):
        raise ValueError(f"{value_name}{unknown_key}: no such key")
    for name, type_hint in type_hints.items():
        if name in value:
            field_values[name] = read_value(
                value[name], type_hint, f"{value_name}{name}", allows_missing_keys
            )
        elif allows_missing_keys and type(None) in get_args(type_hint):
            field_values[name] = None
        elif allows_missing_keys and get_origin(type_hint) is tuple:
            field_values[name] = ()
        else:
            raise ValueError(f"{value_name}{name}: the key is missing")
    return field_values


_TYPE_NAMES = {int: "a number", str: "a string", bool: "true or false", list: "a list", dict: "an object"}


def _require_type(value: Any, value_type: type, value_name: str) -> None:
    # Python counts True as an int; JSON does not.
    if not isinstance(value, value_type) or (value_type is int and isinstance(value, bool)):
        raise ValueError(
            f"{value_name} is not {_TYPE_NAMES.get(value_type, value_type.__name__)}: {value!r:.40}"
        )


@cache
def _type_hints(value_type: Any, include_extras: bool = False) -> dict[str, Any]:
    hints = get_type_hints(value_type, include_extras=include_extras)
    if not is_dataclass(value_type):
        return hints
    # An InitVar is an argument of the constructor, not a field.
    return {field.name: hints[field.name] for field in fields(value_type)}


def json_schema(value_type: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type. Every object must have exactly the keys of its Python type.

    >>> json_schema(Annotated[Count | None, about("how many")])
    {'type': ['integer', 'null'], 'minimum': 0, 'description': 'how many'}
    """
    origin, type_arguments = get_origin(value_type), get_args(value_type)
    if origin is Annotated:
        schema = json_schema(type_arguments[0])
        for facet in type_arguments[1:]:
            schema[facet.keyword] = list(facet.value) if isinstance(facet.value, tuple) else facet.value
        if "enum" in schema:
            del schema["type"]
        return schema
    if origin in (Union, UnionType):
        [inner_schema] = [
            json_schema(type_argument) for type_argument in type_arguments if type_argument is not type(None)
        ]
        has_plain_type = isinstance(inner_schema.get("type"), str) and inner_schema["type"] not in (
            "object",
            "array",
        )
        return (
            {**inner_schema, "type": [inner_schema["type"], "null"]}
            if has_plain_type
            else {"anyOf": [{"type": "null"}, inner_schema]}
        )
    if origin in (list, tuple):
        return {"type": "array", "items": json_schema(type_arguments[0])}
    if origin is dict or origin is Mapping:
        values_schema = (
            {} if type_arguments[1] is Any else {"additionalProperties": json_schema(type_arguments[1])}
        )
        return {"type": "object", **values_schema}
    if is_dataclass(value_type) or is_typeddict(value_type):
        hints = _type_hints(value_type, include_extras=True)
        return json_object({name: json_schema(type_hint) for name, type_hint in hints.items()})
    if issubclass(value_type, StrEnum):
        return {"enum": [*value_type]}
    return {"type": _JSON_TYPE_NAMES[value_type]}


def json_object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that must have exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_JSON_TYPE_NAMES = {int: "integer", float: "number", str: "string", bool: "boolean"}
