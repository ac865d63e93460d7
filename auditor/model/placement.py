"""Locations of bookies, and placement policies of ledgers. This module does no I/O.

BookKeeper's metadata contains neither locations nor policies. Every process has its own policy, and its own
mapping from bookies to locations. For this reason each value has an origin: the option, the file, or the
key in a store that it comes from.

A location is a path, as in BookKeeper's `net/NodeBase`: it begins with a slash, and one slash at its end is
removed. Nothing else is changed. The location of a bookie determines the domains that the bookie is in:

    bookie   the bookie itself
    rack     the whole location: /east/r1 and /west/r1 are two racks
    zone     the first component of the location, with a zone-aware policy
    region   the first component of the location, with a region-aware policy
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypedDict

from auditor.model.json_shape import Count, SchemaFacet, about


class Policy(StrEnum):
    """A placement policy. The values are the words that ``--placement`` accepts. NONE ignores locations."""

    RACK = "rack"
    REGION = "region"
    ZONE = "zone"
    NONE = "none"


class Level(StrEnum):
    """Level at which failures are considered: the kind of domain that fails as a whole."""

    BOOKIE = "bookie"
    RACK = "rack"
    ZONE = "zone"
    REGION = "region"


DEFAULT_RACK = "/default-rack"
SERVER_DEFAULT_LOCATIONS = frozenset(
    {DEFAULT_RACK, "/default-region/default-rack", "/default-zone/default-upgradedomain"}
)
"""Locations that servers give to bookies of unknown location; in a mapping they count as unknown."""

POLICY_LEVEL = {Policy.RACK: Level.RACK, Policy.REGION: Level.REGION, Policy.ZONE: Level.ZONE}
"""Level over which each policy spreads the copies of an entry."""

POLICY_BY_CLASS = {
    "RackawareEnsemblePlacementPolicy": Policy.RACK,
    "IsolatedBookieEnsemblePlacementPolicy": Policy.RACK,
    "ZkIsolatedBookieEnsemblePlacementPolicy": Policy.RACK,
    "RegionAwareEnsemblePlacementPolicy": Policy.REGION,
    "ZoneawareEnsemblePlacementPolicy": Policy.ZONE,
    "DefaultEnsemblePlacementPolicy": Policy.NONE,
    "LocalBookieEnsemblePlacementPolicy": Policy.NONE,
}
"""Policy of each server class, by the class name without its package."""

ISOLATING_POLICY_CLASSES = frozenset(name for name in POLICY_BY_CLASS if "Isolated" in name)
"""Classes of Pulsar that restrict ledgers to groups of bookies."""


class IsolationGroups(NamedTuple):
    """The isolation groups of a ledger.

    The secondary groups are used only if the primary groups have too few bookies.
    """

    primary: tuple[str, ...]
    secondary: tuple[str, ...]

    @property
    def text(self) -> str:
        """The primary and then the secondary groups, as text. The text is "none" if there are no groups.

        >>> IsolationGroups(("fast", "new"), ("slow",)).text, IsolationGroups((), ()).text
        ('fast,new, then slow', 'none')
        """
        return ", then ".join(",".join(names) for names in self if names) or "none"


def normalise_location(location: str) -> str:
    """Return a location in the form that the server uses.

    >>> normalise_location("/r1/"), normalise_location("/r1//"), normalise_location("")
    ('/r1', '/r1/', '')

    Raises:
        ValueError: the location does not begin with a slash. The server refuses it too.
    """
    if location and not location.startswith("/"):
        raise ValueError(f"{location!r} does not begin with a slash")
    return location[:-1] if location.endswith("/") else location


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """A placement policy and its settings, with the defaults of the server's class for this policy.

    The ``min_`` and ``desired_`` fields are numbers of racks, zones or regions for each write quorum.
    ``regions_to_write`` is empty if reppRegionsToWrite is not set. ``isolation_groups`` is None if ledgers
    are not restricted to groups. If it is an empty tuple, Pulsar's policy restricts ledgers to bookies that
    are in no group. ``origin`` is the option or file that the settings come from. It is empty if there is
    none.

    >>> PlacementSettings(Policy.RACK).min_racks
    2
    """

    policy: Policy = Policy.NONE
    min_racks: int = 2
    enforce_min_racks: bool = False
    min_zones: int = 2
    desired_zones: int = 3
    strict_zones: bool = True
    regions_to_write: tuple[str, ...] = ()
    min_regions: int = 2
    durable_replacements: bool = True
    isolation_groups: tuple[str, ...] | None = None
    secondary_groups: tuple[str, ...] = ()
    origin: str = ""

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], origin: str, policy: Policy | None = None
    ) -> PlacementSettings:
        """Return the settings in a configuration.

        The keys are those of a server (bk_server.conf) or of a broker (broker.conf). Other keys are
        ignored.

        >>> properties = {"minNumRacksPerWriteQuorum": "3"}
        >>> PlacementSettings.from_properties(properties, "bk.conf", Policy.RACK).min_racks
        3

        Args:
            properties: keys and values of the configuration.
            origin: the option or file that named the configuration.
            policy: policy that overrides the configured policy. None to use the configured policy.

        Raises:
            ValueError: a value is neither a number nor a switch, or the policy is unknown. Also if there are
                isolation groups but the policy is not the rack policy.
        """
        settings: dict[str, Any] = {
            name: _parse_value(key, properties[key], value_type)
            for name, value_type in _VALUE_TYPES.items()
            for key in _KEYS_BY_SETTING[name]
            if properties.get(key, "").strip()
        }
        if policy not in (None, Policy.RACK) and "isolation_groups" in settings:
            raise ValueError("isolation groups are only possible with the policy rack")
        if policy is None and not _has_isolation(properties):
            settings = {name: value for name, value in settings.items() if name not in _ISOLATION_SETTINGS}
        elif ISOLATION_KEY in properties:
            settings = {"isolation_groups": ()} | settings
        return cls(policy or policy_of(properties), **settings, origin=origin)

    @property
    def groups(self) -> IsolationGroups | None:
        """Isolation groups of the ledgers that name no groups themselves. None if they are not restricted."""
        if self.isolation_groups is None:
            return None
        return IsolationGroups(self.isolation_groups, self.secondary_groups)

    def to_json(self) -> dict[str, Any]:
        """Return all fields except the policy and the origin as a JSON object."""
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        del values["policy"], values["origin"]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, policy: str, settings: Mapping[str, Any], origin: str) -> PlacementSettings:
        """Create settings from a policy, an origin, and the JSON object that `to_json` returns.

        >>> settings = PlacementSettings(Policy.RACK, regions_to_write=("a", "b"), origin="--placement")
        >>> PlacementSettings.from_json("rack", settings.to_json(), "--placement") == settings
        True
        """
        arguments: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
        }
        return cls(Policy(policy), **arguments, origin=origin)


_KEYS_BY_SETTING = {
    "min_racks": ("bookkeeperClientMinNumRacksPerWriteQuorum", "minNumRacksPerWriteQuorum"),
    "enforce_min_racks": (
        "bookkeeperClientEnforceMinNumRacksPerWriteQuorum",
        "enforceMinNumRacksPerWriteQuorum",
    ),
    "min_zones": ("minNumZonesPerWriteQuorum",),
    "desired_zones": ("desiredNumZonesPerWriteQuorum",),
    "strict_zones": ("enforceStrictZoneawarePlacement",),
    "regions_to_write": ("reppRegionsToWrite",),
    "min_regions": ("reppMinimumRegionsForDurability",),
    "durable_replacements": ("reppEnableDurabilityEnforcementInReplace",),
    "isolation_groups": ("bookkeeperClientIsolationGroups", "isolationBookieGroups"),
    "secondary_groups": ("bookkeeperClientSecondaryIsolationGroups", "secondaryIsolationBookieGroups"),
}
"""Keys of each setting in broker.conf and bk_server.conf; the last one that is set counts."""

_VALUE_TYPES = {
    setting.name: tuple if setting.default is None else type(setting.default)
    for setting in fields(PlacementSettings)
    if setting.name in _KEYS_BY_SETTING
}
_ISOLATION_SETTINGS = ("isolation_groups", "secondary_groups")

ISOLATION_KEY = "isolationBookieGroups"
"""Key of Pulsar's isolation groups, which may be empty. Without it ledgers are not restricted to groups."""

SETTING_KEYS = frozenset(key for keys in _KEYS_BY_SETTING.values() for key in keys)
"""All keys of placement settings."""

POLICY_KEYS = (
    "ensemblePlacementPolicy",
    "bookkeeperClientRackawarePolicyEnabled",
    "bookkeeperClientRegionawarePolicyEnabled",
)
"""Keys of bk_server.conf and broker.conf that choose the policy."""


def policy_of(properties: Mapping[str, str]) -> Policy:
    """Return the policy that a configuration selects.

    If it selects no policy, the result is RACK, which is the default of all servers.

    >>> policy_of({}), policy_of({"ensemblePlacementPolicy": "org.x.ZoneawareEnsemblePlacementPolicy"})
    (<Policy.RACK: 'rack'>, <Policy.ZONE: 'zone'>)

    Raises:
        ValueError: the class is unknown, or a switch is neither true nor false.
    """
    class_name, rack, region = (properties.get(key, "").strip() for key in POLICY_KEYS)
    if not class_name and _has_isolation(properties):
        return Policy.RACK  # a broker takes Pulsar's policy then, whatever the switches say
    if class_name:
        name = class_name.rpartition(".")[2]
        if name not in POLICY_BY_CLASS:
            raise ValueError(
                f"{POLICY_KEYS[0]}: {class_name!r} is not a known class; known classes: "
                f"{', '.join(sorted(POLICY_BY_CLASS))}"
            )
        return POLICY_BY_CLASS[name]
    if region and _parse_value(POLICY_KEYS[2], region, bool):
        return Policy.REGION
    return Policy.RACK if not rack or _parse_value(POLICY_KEYS[1], rack, bool) else Policy.NONE


def _has_isolation(properties: Mapping[str, str]) -> bool:
    """Return whether a configuration selects Pulsar's placement policy with isolation groups."""
    class_name = properties.get(POLICY_KEYS[0], "").strip()
    if class_name:
        return class_name.rpartition(".")[2] in ISOLATING_POLICY_CLASSES
    return bool(properties.get("bookkeeperClientIsolationGroups", "").strip())


def _parse_value(key: str, text: str, value_type: type) -> Any:
    text = text.strip()
    if value_type is tuple:
        separator = ";" if key == "reppRegionsToWrite" else ","
        return tuple(item_text.strip() for item_text in text.split(separator) if item_text.strip())
    if value_type is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{key}: {text!r} is neither true nor false")
        return text.lower() == "true"
    if not text.lstrip("-").isdecimal():
        raise ValueError(f"{key}: {text!r} is not a number")
    return int(text)


@dataclass(frozen=True, slots=True)
class Location:
    """Location of a bookie.

    ``path`` is the normalised location, or None if it is not known. ``groups`` are the bookie's groups in
    Pulsar's mapping, in order. ``origin`` is the source of the location. ``source_text`` is the location
    exactly as it is written in that source.
    """

    path: str | None
    groups: tuple[str, ...] = ()
    origin: str | None = None
    source_text: str | None = None


@dataclass(frozen=True)
class Locations:
    """Locations of all bookies. If a bookie is not in ``by_bookie``, its location is unknown.

    ``origin`` is the source of the mapping, or None if there is no mapping.

    >>> found = Locations({"bk1:3181": Location("/east/r1")}, "racks.toml")
    >>> found.domain("bk1:3181", Level.RACK), found.domain("bk1:3181", Level.REGION)
    ('/east/r1', 'east')
    >>> found.domain("bk2:3181", Level.RACK) is None
    True
    """

    by_bookie: Mapping[str, Location] = field(default_factory=dict)
    origin: str | None = None

    def path(self, bookie: str) -> str | None:
        """Return the location of a bookie, or None if it is unknown or just a server's default."""
        location = self.by_bookie.get(bookie)
        return None if location is None or location.path in SERVER_DEFAULT_LOCATIONS else location.path

    def groups(self, bookie: str) -> tuple[str, ...]:
        """Return the isolation groups of the bookie, in order."""
        location = self.by_bookie.get(bookie)
        return location.groups if location else ()

    def domain(self, bookie: str, level: Level) -> str | None:
        """Return the domain that the bookie is in at a level, or None if it is not known.

        If this domain fails, the bookie fails with it.
        """
        if level is Level.BOOKIE:
            return bookie
        path = self.path(bookie)
        if path is None or level is Level.RACK:
            return path
        return path.split("/")[1]

    @property
    def has_known_location(self) -> bool:
        """Whether any bookie has a known location."""
        return any(self.path(bookie) is not None for bookie in self.by_bookie)


class PlacementFacts(TypedDict):
    """The placement policy with which a run judged ensembles, and the numbers of bookies with a location.

    ``settings`` are the fields of `PlacementSettings`, without the policy and the origin. ``policy_origin``
    and ``mapping_origin`` are the sources of the policy and of the locations. ``mapping_origin`` is None if
    there is no mapping. ``located`` and ``unlocated`` are the numbers of bookies with and without a
    location. ``own_groups`` is the number of ledgers whose custom metadata contains a placement policy.
    """

    policy: Annotated[str, SchemaFacet("enum", (*Policy,))]
    settings: Annotated[dict[str, Any], about("settings of the server's policy class, by name")]
    policy_origin: Annotated[str, about("source of the policy")]
    mapping_origin: Annotated[str | None, about("source of the locations of bookies")]
    located: Annotated[Count, about("number of bookies with a location")]
    unlocated: Annotated[Count, about("number of bookies without a location")]
    own_groups: Annotated[Count, about("number of ledgers with a placement policy of their own (Pulsar)")]
