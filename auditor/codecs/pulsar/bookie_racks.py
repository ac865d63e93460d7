"""The rack of each bookie in Pulsar, from the value of ``/bookies`` in the brokers' metadata store.

    {"default": {"bk1:3181": {"rack": "rack1", "hostname": "bk1"}, "bk2:3181": {"rack": "/reg/rack2"}}}

The levels are group, bookie and location (`BookiesRackConfiguration`). Like Pulsar's reader, this module
accepts unknown fields, null for a bookie or group, and a null or absent rack. An empty value is an error.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from auditor.codecs.pulsar.json_value import offset_of, read_json
from auditor.errors import DecodeError

FORMAT_NAME = "Pulsar bookie racks"


class RackEntry(NamedTuple):
    """A bookie of a group. ``rack`` is its rack as written, or None if the bookie has no rack."""

    group: str
    bookie_id: str
    rack: str | None


def decode(data: bytes) -> list[RackEntry]:
    """Read the value of ``/bookies``. A bookie may be in several groups.

    >>> decode(b'{"default": {"bk1:3181": {"rack": "rack1"}, "bk2:3181": null}}')[0]
    RackEntry(group='default', bookie_id='bk1:3181', rack='rack1')

    Raises:
        DecodeError: The value is invalid. If it is valid JSON, the offset is that of the invalid field's
            name.
    """
    value = read_json(data, FORMAT_NAME)
    entries = []
    for group, bookies in _require_object(value, "the value", data, None).items():
        for bookie, bookie_info in _require_object(bookies, f"group {group!r}", data, group).items():
            rack = _require_object(bookie_info, f"bookie {bookie!r}", data, bookie).get("rack")
            if isinstance(rack, dict | list):
                raise DecodeError(
                    FORMAT_NAME, offset_of(data, bookie), f"the rack of bookie {bookie!r} is not a text"
                )
            entries.append(RackEntry(group, bookie, rack if rack is None else _require_text(rack)))
    return entries


def location_of(rack: str | None) -> str | None:
    """Return the location of a rack: its name with a slash in front.

    Returns None if the rack is empty or only a slash.

    >>> location_of("rack1"), location_of("/reg/rack2"), location_of(" / "), location_of("")
    ('/rack1', '/reg/rack2', None, None)
    """
    if not rack or rack.strip() == "/":
        return None
    return rack if rack.startswith("/") else f"/{rack}"


def _require_object(value: Any, name: str, data: bytes, key: str | None) -> dict[str, Any]:
    if value is None and key is not None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(FORMAT_NAME, offset_of(data, key), f"{name} is not an object")
    return value


def _require_text(value: Any) -> str:
    """Return a text unchanged, and a number or boolean as its JSON text, as Pulsar's reader does."""
    return value if isinstance(value, str) else json.dumps(value)
