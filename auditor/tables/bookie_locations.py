"""Where each bookie stands: the columns of the table bookie_locations, and its rows as a mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from auditor.model.columns import schema_of
from auditor.model.placement import Location, Locations

BOOKIE_LOCATIONS = schema_of(
    ("bookie_id", pa.string(), "every id of the table bookies, and others that Pulsar's groups name"),
    (
        "location",
        pa.string(),
        "its location as a server keeps it, such as /region/rack; null: not known, or no bookie",
    ),
    ("given", pa.string(), "the same as it was written; null: nothing was"),
    ("groups", pa.list_(pa.string()), "Pulsar's groups that it is in"),
    ("origin", pa.string(), "the file, script or key that says so; null: nothing does"),
)


def locations_of(rows: Iterable[Mapping[str, Any]], origin: str | None) -> Locations:
    """The mapping that rows of the table make; ``origin`` is what all of it was taken from."""
    found = {
        row["bookie_id"]: Location(row["location"], tuple(row["groups"]), row["origin"], row["given"])
        for row in rows
    }
    return Locations(found, origin)
