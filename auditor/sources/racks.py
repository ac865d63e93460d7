"""Mappings from bookies to rack locations, read from a file, from a script, or from a value in a store.

    bk1:3181  /r1            two columns: a bookie or its host, and its location; # begins a comment

    [bookies]                FILE.toml
    "bk1:3181" = "/r1"
    "bk2:3181" = { rack = "/r2", group = "default" }

    {"default": {...}}       FILE.json: Pulsar's value at /bookies

A script is called as Hadoop's `net/ScriptBasedMapping` calls it. It gets up to 100 addresses as arguments,
and prints one location for each address. It gets no bookie ids. So only a bookie that has an address can
have a location.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from auditor.codecs.pulsar import bookie_racks
from auditor.codecs.pulsar.bookie_racks import RackEntry, location_of
from auditor.errors import DecodeError, UsageError, path_error
from auditor.model.placement import Location, normalise_location
from auditor.sources.regular_file import read_regular, read_toml

PULSAR_MAPPING = "bookies"
"""Name of the node with Pulsar's mapping. The node is beside BookKeeper's root."""

SCRIPT_ARGUMENTS = 100
"""Largest number of addresses in one call of the script (``networkTopologyScriptNumberArgs``)."""

SCRIPT_TIMEOUT_S = 60.0

RackMapping = Mapping[str, Location]
"""Locations by bookie id or host."""


def read_racks(path: str) -> RackMapping:
    """Read a mapping from a file.

    Raises:
        UsageError: the file does not exist or is invalid. The message names the line or the bookie.
    """
    if path.endswith(".toml"):
        return _toml_mapping(path, read_toml(path))
    try:
        file_bytes = read_regular(path)
        if path.endswith(".json"):
            return mapping_of_pulsar(bookie_racks.decode(file_bytes), path)
        mapping_text = file_bytes.decode()
    except OSError as error:
        raise path_error(error, f"--racks {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise UsageError(f"--racks {path}: {error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--racks {path}: is not UTF-8 text (at byte {error.start})") from None
    locations: dict[str, Location] = {}
    for line_number, line in enumerate(mapping_text.splitlines(), 1):
        line_columns = line.partition("#")[0].split()
        if line_columns and len(line_columns) != 2:
            raise UsageError(
                f"--racks {path}: line {line_number} has {len(line_columns)} columns; it must have two, a "
                "bookie and a location"
            )
        if line_columns:
            _add_location(
                locations,
                line_columns[0],
                Location(None, (), path, line_columns[1]),
                f"--racks {path}: line {line_number}",
            )
    return locations


def mapping_of_pulsar(entries: Iterable[RackEntry], origin: str) -> RackMapping:
    """Return the mapping that Pulsar's value contains.

    If a bookie is in two groups, the last group decides its rack. ``origin`` is the name of the file or
    node that contains the value, for reports.
    """
    locations: dict[str, Location] = {}
    for rack_entry in entries:
        groups = locations[rack_entry.bookie_id].groups if rack_entry.bookie_id in locations else ()
        location = location_of(rack_entry.rack)
        path = normalise_location(location) if location else None
        locations[rack_entry.bookie_id] = Location(
            path or None, (*groups, rack_entry.group), origin, rack_entry.rack
        )
    return locations


def ask_script(script: str, hosts: Iterable[str]) -> RackMapping:
    """Run a topology script, and return the locations of the given hosts.

    A host that does not resolve gets no location.

    Raises:
        UsageError: the script cannot be run, fails, or does not print a location for each address.
    """
    addresses = {host: address for host in sorted(set(hosts)) if (address := _address(host))}
    unique_addresses = sorted(set(addresses.values()))
    locations_by_address: dict[str, str] = {}
    for chunk_start in range(0, len(unique_addresses), SCRIPT_ARGUMENTS):
        address_chunk = unique_addresses[chunk_start : chunk_start + SCRIPT_ARGUMENTS]
        locations_by_address |= dict(zip(address_chunk, _run_script(script, address_chunk), strict=True))
    locations: dict[str, Location] = {}
    for host, address in addresses.items():
        location = Location(None, (), script, locations_by_address[address])
        _add_location(locations, host, location, f"--rack-script {script}: {address}")
    return locations


def locate(bookie: str, host: str | None, mapping: RackMapping) -> Location | None:
    """Return the location of a bookie, or None if the mapping has no location for it.

    The function looks up the bookie's id first, then ``host``, and then the host in the bookie's id.

    >>> racks = {"bk1:3181": Location("/r1"), "bk2": Location("/r2")}
    >>> locate("bk2:3181", None, racks).path, locate("bk3:3181", "bk2", racks).path
    ('/r2', '/r2')
    """
    for name in (bookie, host, bookie.rpartition(":")[0]):
        if name and name in mapping:
            return mapping[name]
    return None


def locate_all(hosts: Mapping[str, str | None], mapping: RackMapping) -> dict[str, Location]:
    """Return the location of each bookie, by bookie id.

    A bookie that is not in the mapping gets a location whose path is None. ``hosts`` maps each bookie id to
    the host of the bookie, or to None if the host is not known.
    """
    return {bookie: locate(bookie, host, mapping) or Location(None) for bookie, host in hosts.items()}


def _toml_mapping(path: str, values: Mapping[str, Any]) -> RackMapping:
    bookies = values.get("bookies")
    if set(values) != {"bookies"} or not isinstance(bookies, dict):
        raise UsageError(
            f'--racks {path}: must have one table, [bookies], with lines such as "bk1:3181" = "/r1"'
        )
    locations: dict[str, Location] = {}
    for bookie, value in bookies.items():
        rack_entry = {"rack": value} if isinstance(value, str) else value
        if not isinstance(rack_entry, dict) or not {"rack"} <= set(rack_entry) <= {"rack", "group"}:
            raise UsageError(f"--racks {path}: {bookie}: has no location; set one, or a rack and a group")
        if not all(isinstance(mapping_text, str) for mapping_text in rack_entry.values()):
            raise UsageError(f"--racks {path}: {bookie}: rack and group must be strings")
        groups = (rack_entry["group"],) if "group" in rack_entry else ()
        _add_location(
            locations, bookie, Location(None, groups, path, rack_entry["rack"]), f"--racks {path}: {bookie}"
        )
    return locations


def _add_location(locations: dict[str, Location], name: str, location: Location, option_name: str) -> None:
    """Normalise a location, and add it to ``locations`` under the name ``name``.

    Refuse a name that is already present. ``option_name`` is the name of the line or entry in messages.
    """
    assert location.source_text is not None
    if name in locations:
        raise UsageError(f"{option_name}: {name} appears twice")
    try:
        path = normalise_location(location.source_text) or None
    except ValueError as error:
        raise UsageError(f"{option_name}: {error}; servers refuse such a location") from None
    locations[name] = Location(path, location.groups, location.origin, location.source_text)


def _address(host: str) -> str | None:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return None


def _run_script(script: str, addresses: list[str]) -> list[str]:
    try:
        script_process = subprocess.run(
            [script, *addresses], capture_output=True, text=True, timeout=SCRIPT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"--rack-script {script}: no answer after {SCRIPT_TIMEOUT_S:g} s") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--rack-script {script}: {getattr(error, 'strerror', None) or error}") from None
    if script_process.returncode:
        reason = (
            f": {script_process.stderr.strip().splitlines()[-1]}" if script_process.stderr.strip() else ""
        )
        raise UsageError(f"--rack-script {script}: failed with exit code {script_process.returncode}{reason}")
    locations = script_process.stdout.split()
    if len(locations) != len(addresses):
        raise UsageError(
            f"--rack-script {script}: printed {len(locations)} locations for {len(addresses)} addresses; "
            "servers ignore all locations in this case"
        )
    return locations
