"""Where each bookie stands and by which policy, with what said so: the table bookie_locations.

A mapping comes from ``--racks``, else from ``--rack-script``, else from Pulsar's ``/bookies`` beside
BookKeeper's root. A policy comes from ``--placement``, else from ``--bookie-conf``, which AutoRecovery goes
by; without either it is the default of bookies and brokers. With no mapping and no ``--placement`` nothing is
said of placement: every ledger of a cluster that nobody mapped would break a policy that nobody chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.audit.landing import Landing
from auditor.audit.metadata_scan import MetadataSource
from auditor.codecs.bookie import java_properties
from auditor.codecs.pulsar import bookie_racks
from auditor.errors import DecodeError, StoreError, UsageError
from auditor.model.options import AuditOptions
from auditor.model.placement import (
    KEYS,
    POLICY_KEYS,
    Location,
    Locations,
    PlacementFacts,
    PlacementSettings,
    Policy,
)
from auditor.sources.metadata.store import value_beside
from auditor.sources.racks import Said, ask_script, locate, of_pulsar, read_racks
from auditor.sources.regular_file import read_regular
from auditor.tables.bookie_locations import BOOKIE_LOCATIONS

BOOKIES = "bookies"
"""The name of Pulsar's mapping beside BookKeeper's root."""

DEFAULT_POLICY = "the default of bookies and brokers"


@dataclass(frozen=True)
class Placement:
    """What is known of placement before any bookie is looked up in it.

    ``said`` is the mapping by bookie or host, None where it is a script that is still to be asked; ``origin``
    is what it is from, None where there is none.
    """

    settings: PlacementSettings
    said: Said | None
    origin: str | None
    chosen: bool
    notes: tuple[str, ...] = ()

    @property
    def settings_in_use(self) -> PlacementSettings | None:
        """The settings to judge by; None where nobody gave a mapping or chose a policy."""
        return self.settings if self.chosen or self.origin is not None else None


def check_placement(options: AuditOptions) -> PlacementSettings:
    """The policy and settings that the options give, for their errors before anything is read.

    Raises:
        UsageError: invalid options, alone or together.
    """
    if options.racks is not None and options.rack_script is not None:
        raise UsageError("--racks and --rack-script: give one mapping, not two")
    if options.racks is not None:
        read_racks(options.racks)
    chosen = options.placement
    if chosen is not None:
        return chosen_settings(chosen)
    if options.bookie_conf is not None:
        properties = _properties("--bookie-conf", options.bookie_conf)
        if {*properties} & {*KEYS, *POLICY_KEYS}:
            return _settings(properties, f"--bookie-conf {options.bookie_conf}")
    return PlacementSettings(Policy.RACK, origin=DEFAULT_POLICY)


def chosen_settings(text: str) -> PlacementSettings:
    """What ``--placement`` gives: a policy, with settings by the server's names; or a configuration file.

    >>> chosen_settings("rack,minNumRacksPerWriteQuorum=3,isolationBookieGroups=a,b").isolation_groups
    ('a', 'b')

    Raises:
        UsageError: no policy and no file, or a setting that no server has.
    """
    word, *parts = text.split(",")
    if word not in [*Policy]:
        if not Path(text).exists():
            raise UsageError(
                f"--placement {text}: it is {', '.join(Policy)}, or a configuration file such as broker.conf"
            )
        return _settings(_properties("--placement", text), f"--placement {text}")
    properties: dict[str, str] = {}
    key = ""
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals and key:
            properties[key] += f",{part}"  # a list, as isolationBookieGroups
            continue
        key = name.strip()
        if key not in KEYS:
            raise UsageError(
                f"--placement {text}: {key!r} is no setting; there are {', '.join(sorted(KEYS))}"
            )
        properties[key] = value
    return _settings(properties, f"--placement {text}", Policy(word))


def read_placement(source: MetadataSource, options: AuditOptions) -> Placement:
    """Find a mapping, after M0."""
    settings, chosen = check_placement(options), options.placement is not None
    if options.racks is not None:
        return Placement(settings, read_racks(options.racks), f"--racks {options.racks}", chosen)
    if options.rack_script is not None:
        return Placement(settings, None, f"--rack-script {options.rack_script}", chosen)
    path = f"{source.store.root.rpartition('/')[0]}/{BOOKIES}"
    where = f"{path} of {source.uri.text}"
    try:
        data = value_beside(source.store, BOOKIES)
        entries = bookie_racks.decode(data) if data is not None else []
    except (StoreError, DecodeError) as error:
        return Placement(
            settings, {}, None, chosen, (f"the racks of Pulsar could not be read from {where}: {error}",)
        )
    if entries:
        return Placement(settings, of_pulsar(entries, where), where, chosen)
    return Placement(settings, {}, None, chosen)


def land_locations(
    landing: Landing,
    placement: Placement,
    bookies: Sequence[Mapping[str, Any]],
    registrations: Sequence[Mapping[str, Any]],
    options: AuditOptions,
) -> None:
    """Look every bookie up in the mapping, and land the table bookie_locations.

    Raises:
        UsageError: the script cannot be run, or does not answer.
    """
    hosts = {row["bookie_id"]: row["host"] for row in registrations if row["used"]}
    said = placement.said
    if said is None:
        assert options.rack_script is not None
        said = ask_script(options.rack_script, [host for host in hosts.values() if host])
    nowhere = Location(None)
    found = {row["bookie_id"]: locate(row["bookie_id"], hosts.get(row["bookie_id"]), said) for row in bookies}
    rows = [
        {
            "bookie_id": bookie,
            "location": (location or nowhere).path,
            "given": (location or nowhere).given,
            "groups": list((location or nowhere).groups),
            "origin": (location or nowhere).origin,
        }
        for bookie, location in found.items()
    ]
    landing.rows("bookie_locations", rows, BOOKIE_LOCATIONS)


def placement_facts(placement: Placement, locations: Locations) -> PlacementFacts | None:
    """What the report says of it; None where placement was not looked at."""
    settings = placement.settings_in_use
    if settings is None:
        return None
    return {
        "policy": str(settings.policy),
        "settings": settings.to_json(),
        "policy_origin": settings.origin,
        "mapping_origin": placement.origin,
        "located": sum(locations.path(bookie) is not None for bookie in locations.of),
        "unlocated": sum(locations.path(bookie) is None for bookie in locations.of),
    }


def _settings(properties: Mapping[str, str], origin: str, policy: Policy | None = None) -> PlacementSettings:
    try:
        return PlacementSettings.of(properties, origin, policy)
    except ValueError as error:
        raise UsageError(f"{origin}: {error}") from None


def _properties(option: str, path: str) -> dict[str, str]:
    try:
        return java_properties.decode(read_regular(path))
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise UsageError(f"{option} {path}: {error}") from None
