"""Where each bookie stands and by which policy, with what said so: the table bookie_locations.

A mapping comes from ``--racks``, else from ``--rack-script``, else from Pulsar's ``/bookies`` beside
BookKeeper's root. A policy comes from ``--placement``, else from ``--bookie-conf``, which AutoRecovery goes
by; without either it is the default of bookies and brokers. With no mapping and no ``--placement`` nothing is
said of placement: every ledger of a cluster that nobody mapped would break a policy that nobody chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auditor.audit.landing import Landing
from auditor.audit.placement_settings import check_placement, settings_differences
from auditor.checks.placement_rows import rule_of
from auditor.codecs.pulsar import bookie_racks
from auditor.codecs.pulsar.placement_config import KEY
from auditor.errors import DecodeError, StoreError
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.placement import (
    Locations,
    PlacementFacts,
    PlacementSettings,
    Policy,
)
from auditor.model.remark import Remark, RemarkKind, remark
from auditor.sources.metadata.store import MetadataStore, value_beside
from auditor.sources.metadata.uri import MetadataUri
from auditor.sources.racks import PULSAR_MAPPING, Said, ask_script, locate_all, of_pulsar, read_racks
from auditor.tables import OF_PLACEMENT, Tables
from auditor.tables.bookie_locations import BOOKIE_LOCATIONS
from auditor.tables.placement import PlacementJudge, placement


@dataclass(frozen=True)
class Placement:
    """What is known of placement before any bookie is looked up in it.

    ``said`` is the mapping by bookie or host, None where it is a script that is still to be asked; ``origin``
    is what it is from, None where there is none. ``chosen``: ``--placement`` chose the policy.
    ``differences`` are what AutoRecovery's configuration says otherwise than that of brokers.
    """

    settings: PlacementSettings
    said: Said | None
    origin: str | None
    chosen: bool
    remarks: tuple[Remark, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def settings_in_use(self) -> PlacementSettings | None:
        """The settings to judge by; None where nobody gave a mapping or chose a policy."""
        return self.settings if self.chosen or self.origin is not None else None


def read_placement(uri: MetadataUri, store: MetadataStore, options: AuditOptions) -> Placement:
    """Find a mapping, after M0."""
    found = _find_mapping(uri, store, options)
    reads_pulsar = found.origin is not None and options.racks is None and options.rack_script is None
    return replace(found, differences=settings_differences(options, pulsar=reads_pulsar))


def _hidden_mapping(where: str) -> Remark:
    """What is said of a store below a chroot, by where Pulsar's mapping was looked for."""
    other = (
        "brokers that have another root keep theirs there: save that value and give it with --racks FILE.json"
    )
    return remark(RemarkKind.PLACEMENT, "no racks were found", f"none are at {where}", other)


def _find_mapping(uri: MetadataUri, store: MetadataStore, options: AuditOptions) -> Placement:
    settings, chosen = check_placement(options), options.placement is not None
    if options.racks is not None:
        return Placement(settings, read_racks(options.racks), f"--racks {options.racks}", chosen)
    if options.rack_script is not None:
        return Placement(settings, None, f"--rack-script {options.rack_script}", chosen)
    path = f"{store.root.rpartition('/')[0]}/{PULSAR_MAPPING}"
    where = f"{path} of {uri.text}"
    try:
        data = value_beside(store, PULSAR_MAPPING)
        entries = bookie_racks.decode(data) if data is not None else []
    except (StoreError, DecodeError) as error:
        unread = remark(
            RemarkKind.LOCATIONS_UNREAD, "the racks of Pulsar could not be read", f"{where}: {error}"
        )
        return Placement(settings, {}, None, chosen, (unread,))
    if entries:
        return Placement(settings, of_pulsar(entries, where), where, chosen)
    # At the top nothing is hidden; below a chroot the brokers' own root may be another one.
    hidden = path != f"/{PULSAR_MAPPING}"
    return Placement(settings, {}, None, chosen, (_hidden_mapping(where),) if hidden else ())


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
    found = locate_all({row["bookie_id"]: hosts.get(row["bookie_id"]) for row in bookies}, said)
    # Pulsar's policy counts all that its groups name, bookies that went long ago too.
    used = {id(location) for location in found.values()}
    found |= {
        name: replace(location, path=None)
        for name, location in said.items()
        if location.groups and id(location) not in used
    }
    rows = [
        {
            "bookie_id": bookie,
            "location": location.path,
            "given": location.given,
            "groups": list(location.groups),
            "origin": location.origin,
        }
        for bookie, location in found.items()
    ]
    landing.rows("bookie_locations", rows, BOOKIE_LOCATIONS)


def with_placement(landing: Landing, tables: Tables) -> Tables:
    """``tables`` with the table placement; as they are where nothing says by which policy to judge.

    With no location at all every ledger would break the policy: bookie-without-location says it once.
    """
    settings, roster = tables.cluster.placement, tables.roster
    if settings is None or settings.policy is Policy.NONE or not roster.locations.known:
        return tables
    names = sorted(row["bookie_id"] for row in roster.bookies)
    modes = {row["bookie_id"]: row["registered"] for row in roster.bookies if row["registered"]}
    writable = [name for name, mode in modes.items() if mode != "readonly"]
    judge = PlacementJudge.of(settings, roster.locations, names, writable, modes)
    rows = landing.land(
        "placement", lambda: landing.read_small(placement(landing.spark, landing.files("ledgers"), judge))
    )
    empty = tables.without_rows(OF_PLACEMENT, landing.empty)
    return replace(tables, placement=rows, known_empty=empty)


def placement_remarks(placement: Placement, facts: PlacementFacts | None) -> list[Remark]:
    """By which policy ledgers were judged, and by what locations, with what said so."""
    if facts is None:
        return list(placement.remarks)
    number = facts["located"] + facts["unlocated"]
    found = f"locations of {facts['located']} of {number} bookies are from {facts['mapping_origin']}"
    policy = f"policy {rule_of(placement.settings)}, from {facts['policy_origin']}"
    mapping = found if facts["mapping_origin"] else "no mapping was found"
    said = remark(RemarkKind.PLACEMENT, "placement is judged", policy, mapping)
    return [*placement.remarks, said, *_groups_remarks(placement.settings, facts)]


def _groups_remarks(settings: PlacementSettings, facts: PlacementFacts) -> Iterator[Remark]:
    """Which isolation groups are in force, of the configuration and of ledgers."""
    if settings.groups is not None:
        words = f"{settings.groups.words}, from {settings.origin}"
        yield remark(RemarkKind.PLACEMENT, "isolation groups are in force", words)
    if facts["own_groups"]:
        own = plural(facts["own_groups"], "ledger")
        text = f"{own} with a placement policy of its own" if facts["own_groups"] == 1 else ""
        yield remark(
            RemarkKind.PLACEMENT,
            text or f"{own} with placement policies of their own",
            f"{KEY} in custom metadata",
        )


def placement_facts(
    placement: Placement, locations: Locations, bookies: Sequence[str], own_groups: int
) -> PlacementFacts | None:
    """What the report says of it; None where placement was not looked at."""
    settings = placement.settings_in_use
    if settings is None:
        return None
    return {
        "policy": str(settings.policy),
        "settings": settings.to_json(),
        "policy_origin": settings.origin,
        "mapping_origin": placement.origin,
        "located": sum(locations.path(bookie) is not None for bookie in bookies),
        "unlocated": sum(locations.path(bookie) is None for bookie in bookies),
        "own_groups": own_groups,
    }
