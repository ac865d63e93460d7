"""Which rack each bookie is in, by Pulsar: the value of ``/bookies`` in the brokers' metadata store.

    {"default": {"bk1:3181": {"rack": "rack1", "hostname": "bk1"}, "bk2:3181": {"rack": "/reg/rack2"}}}

A group, then a bookie, then where it stands (`BookiesRackConfiguration`). As its reader does, a bookie or
group that is null, a rack that is null or missing, and unknown fields are taken; no value at all is an error.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from auditor.codecs.pulsar.json_value import offset_of, read_json
from auditor.errors import DecodeError

WHAT = "Pulsar bookie racks"


class RackEntry(NamedTuple):
    """A bookie of a group, and its rack as it was written; None where none was."""

    group: str
    bookie_id: str
    rack: str | None


def decode(data: bytes) -> list[RackEntry]:
    """Read the value of ``/bookies``; a bookie may be in several groups.

    >>> decode(b'{"default": {"bk1:3181": {"rack": "rack1"}, "bk2:3181": null}}')[0]
    RackEntry(group='default', bookie_id='bk1:3181', rack='rack1')

    Raises:
        DecodeError: it is not such a value; where it is JSON, the offset is that of the name at fault.
    """
    value = read_json(data, WHAT)
    entries = []
    for group, bookies in _object(value, "the value", data, None).items():
        for bookie, info in _object(bookies, f"group {group!r}", data, group).items():
            rack = _object(info, f"bookie {bookie!r}", data, bookie).get("rack")
            if isinstance(rack, dict | list):
                raise DecodeError(
                    WHAT, offset_of(data, bookie), f"the rack of bookie {bookie!r} is not a text"
                )
            entries.append(RackEntry(group, bookie, rack if rack is None else _text(rack)))
    return entries


def location_of(rack: str | None) -> str | None:
    """Where a rack puts its bookie: a slash goes before it; empty and a slash alone are no rack.

    >>> location_of("rack1"), location_of("/reg/rack2"), location_of(" / "), location_of("")
    ('/rack1', '/reg/rack2', None, None)
    """
    if not rack or rack.strip() == "/":
        return None
    return rack if rack.startswith("/") else f"/{rack}"


def _object(value: Any, name: str, data: bytes, key: str | None) -> dict[str, Any]:
    if value is None and key is not None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(WHAT, offset_of(data, key), f"{name} is not an object")
    return value


def _text(value: Any) -> str:
    """A number or a switch becomes the text that it is in JSON, as Pulsar's reader makes of it."""
    return value if isinstance(value, str) else json.dumps(value)
