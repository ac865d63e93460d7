"""Racks and placement policy of the bookies, and where both come from (table ``bookie_locations``).

The mapping from bookies to racks comes from ``--racks``, else from ``--rack-script``, else from Pulsar's
``/bookies`` next to BookKeeper's root. The policy comes from ``--placement``, which names the policy of
brokers and other writers. Without this option, the policy comes from ``--bookie-conf``, which AutoRecovery
follows. Without both options, it is the default policy of bookies and brokers.

Placement is not judged if there is neither a mapping nor ``--placement``. In a cluster without racks, every
ledger would break a policy that nobody chose.

If both ``--placement`` and ``--bookie-conf`` are files, they are compared. If AutoRecovery uses a different
policy or mapping from the brokers, it undoes their placement.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from auditor.audit.table_cache import TableCache
from auditor.checks.ledger_queries import policy_sentence
from auditor.codecs.bookie import java_properties
from auditor.codecs.pulsar import bookie_racks
from auditor.codecs.pulsar.placement_config import KEY
from auditor.errors import DecodeError, StoreError, UsageError, path_error
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.placement import (
    POLICY_KEYS,
    SETTING_KEYS,
    Locations,
    PlacementFacts,
    PlacementSettings,
    Policy,
)
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.sources.metadata.store import MetadataStore, sibling_value
from auditor.sources.metadata.uri import METADATA_STORE, MetadataUri, parse_metadata_uri, redact
from auditor.sources.racks import (
    PULSAR_MAPPING,
    RackMapping,
    ask_script,
    locate_all,
    mapping_of_pulsar,
    read_racks,
)
from auditor.sources.regular_file import read_regular
from auditor.tables import Tables
from auditor.tables.placement import BOOKIE_LOCATIONS, PlacementJudge, placement

DEFAULT_POLICY_ORIGIN = "the default policy of bookies and brokers"
RESOLVER_KEY = "reppDnsResolverClass"
PULSAR_RESOLVER_SUFFIX = "BookieRackAffinityMapping"
"""Suffix of the class names of Pulsar's rack resolvers, old and new."""


def check_placement(options: AuditOptions) -> PlacementSettings:
    """Return the placement policy and settings that the options specify. Call it before anything is read.

    Raises:
        UsageError: an option is invalid, or two options contradict each other.
    """
    if options.racks is not None and options.rack_script is not None:
        raise UsageError("--racks and --rack-script: pass only one of them")
    if options.racks is not None:
        read_racks(options.racks)
    settings_differences(options, uses_pulsar_mapping=False)
    placement_option = options.placement
    if placement_option is not None:
        return parse_placement(placement_option)
    if options.bookie_conf is not None:
        properties = read_properties("--bookie-conf", options.bookie_conf)
        if {*properties} & {*SETTING_KEYS, *POLICY_KEYS}:
            return _parse_settings(properties, f"--bookie-conf {options.bookie_conf}")
    return PlacementSettings(Policy.RACK, origin=DEFAULT_POLICY_ORIGIN)


def parse_placement(text: str) -> PlacementSettings:
    """Return the settings in the value of ``--placement``.

    The value is a policy with server settings, or the path of a configuration file.

    >>> parse_placement("rack,minNumRacksPerWriteQuorum=3,isolationBookieGroups=a,b").isolation_groups
    ('a', 'b')

    Raises:
        UsageError: the text is neither a policy nor a file, or has a setting that servers do not have.
    """
    policy_name, *setting_texts = text.split(",")
    if policy_name not in [*Policy]:
        if not Path(text).exists():
            raise UsageError(
                f"--placement {text}: must be one of {', '.join(Policy)}, or a configuration file such "
                f"as broker.conf"
            )
        return _parse_settings(read_properties("--placement", text), f"--placement {text}")
    properties: dict[str, str] = {}
    key = ""
    for setting_text in setting_texts:
        name, separator, value = setting_text.partition("=")
        if not separator and key:
            properties[key] += f",{setting_text}"  # a list, as isolationBookieGroups
            continue
        key = name.strip()
        if key not in SETTING_KEYS:
            known_keys = ", ".join(sorted(SETTING_KEYS))
            raise UsageError(f"--placement {text}: unknown setting {key!r}; must be one of {known_keys}")
        properties[key] = value
    return _parse_settings(properties, f"--placement {text}", Policy(policy_name))


def settings_differences(options: AuditOptions, *, uses_pulsar_mapping: bool) -> tuple[str, ...]:
    """Return sentences that describe how the configurations of AutoRecovery and brokers differ.

    The result is empty unless both configuration files are given. ``uses_pulsar_mapping`` is True if the
    racks come from Pulsar's own mapping.
    """
    placement = options.placement
    if placement is None or placement.split(",")[0] in [*Policy] or options.bookie_conf is None:
        return ()
    broker_properties = read_properties("--placement", placement)
    bookie_properties = read_properties("--bookie-conf", options.bookie_conf)
    return tuple(_diff_sentences(broker_properties, bookie_properties, options, uses_pulsar_mapping))


def _diff_sentences(
    broker_properties: Mapping[str, str],
    bookie_properties: Mapping[str, str],
    options: AuditOptions,
    uses_pulsar_mapping: bool,
) -> Iterator[str]:
    broker_settings, bookie_settings = (
        _parse_settings(properties, f"{option} {path}")
        for option, path, properties in (
            ("--placement", options.placement, broker_properties),
            ("--bookie-conf", options.bookie_conf, bookie_properties),
        )
    )
    if broker_settings.policy is not bookie_settings.policy:
        yield f"AutoRecovery has policy {bookie_settings.policy}, and brokers have {broker_settings.policy}"
    broker_values = broker_settings.to_json()
    for name, value in bookie_settings.to_json().items():
        if value != broker_values[name]:
            bookie_text, broker_text = (
                "not set" if setting is None else setting for setting in (value, broker_values[name])
            )
            yield f"{name} is {bookie_text} for AutoRecovery, and {broker_text} for brokers"
    resolver = bookie_properties.get(RESOLVER_KEY, "").strip()
    if uses_pulsar_mapping and not resolver.endswith(PULSAR_RESOLVER_SUFFIX):
        yield f"{RESOLVER_KEY} is {resolver or 'not set'}, so AutoRecovery does not read Pulsar's mapping"
    uri = bookie_properties.get("metadataServiceUri", "").strip()
    store = broker_properties.get("metadataStoreUrl", "").strip()
    if store and not store.startswith(_STORE_PREFIXES):
        store = f"zk:{store}"
    bookie_text, broker_text = _mapping_store(uri), _mapping_store(f"{METADATA_STORE}{store}")
    if bookie_text and broker_text and bookie_text != broker_text:
        yield f"AutoRecovery reads the mapping from {redact(uri)}, and brokers read it from {redact(store)}"
    if uses_pulsar_mapping and uri and not uri.startswith(METADATA_STORE):
        yield f"metadataServiceUri is {redact(uri)}, but Pulsar's resolver accepts only {METADATA_STORE} URIs"


_STORE_PREFIXES = ("zk:", "etcd:", "oxia:", "rocksdb:", "memory:")
"""Prefixes of the URLs of Pulsar's metadata stores. Other URLs are ZooKeeper hosts."""


def _mapping_store(uri: str) -> tuple[str, frozenset[str], str] | None:
    """Return the kind, the hosts and the parent path of the store that has the rack mapping.

    Returns None if ``uri`` is invalid.
    """
    try:
        parsed_uri = parse_metadata_uri(uri)
    except UsageError:
        return None
    return (
        parsed_uri.scheme.removeprefix(METADATA_STORE),
        frozenset(parsed_uri.hosts),
        parsed_uri.root.rpartition("/")[0],
    )


def _parse_settings(
    properties: Mapping[str, str], origin: str, policy: Policy | None = None
) -> PlacementSettings:
    try:
        return PlacementSettings.from_properties(properties, origin, policy)
    except ValueError as error:
        raise UsageError(f"{origin}: {error}") from None


def read_properties(option: str, path: str) -> dict[str, str]:
    """Read the Java properties file at ``path``.

    ``option`` is the command-line option that names the file.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        return java_properties.decode(read_regular(path))
    except OSError as error:
        raise path_error(error, f"{option} {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise UsageError(f"{option} {path}: {error}") from None


@dataclass(frozen=True)
class Placement:
    """The placement policy and the rack mapping of a run, before bookies are looked up in the mapping.

    ``mapping`` has locations by bookie or host. It is None while the script of ``--rack-script`` has not
    yet run. ``origin`` names the source of the mapping, or is None if there is no mapping. ``is_chosen`` is
    True if ``--placement`` chose the policy. ``differences`` are the sentences of `settings_differences`.
    """

    settings: PlacementSettings
    mapping: RackMapping | None
    origin: str | None
    is_chosen: bool
    remarks: tuple[Remark, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def settings_in_use(self) -> PlacementSettings | None:
        """Return the settings by which placement is judged.

        Returns None if no mapping was given and no policy was chosen.
        """
        return self.settings if self.is_chosen or self.origin is not None else None


def read_placement(uri: MetadataUri, store: MetadataStore, options: AuditOptions) -> Placement:
    """Find the placement policy and the rack mapping. Call it after the first metadata scan (M0)."""
    found_placement = _find_mapping(uri, store, options)
    reads_pulsar = (
        found_placement.origin is not None and options.racks is None and options.rack_script is None
    )
    return replace(
        found_placement, differences=settings_differences(options, uses_pulsar_mapping=reads_pulsar)
    )


def _no_racks_remark(mapping_source: str) -> Remark:
    """Return the remark that no racks were found, because ``mapping_source`` is absent below the chroot."""
    racks_advice = (
        f"if the brokers use another root, save the value of znode /{PULSAR_MAPPING} below that root to a "
        "local file. Pass it with --racks FILE.json"
    )
    return remark(
        RemarkKind.PLACEMENT, "no racks were found", f"{mapping_source} does not exist", racks_advice
    )


def _find_mapping(uri: MetadataUri, store: MetadataStore, options: AuditOptions) -> Placement:
    settings, placement_option = check_placement(options), options.placement is not None
    if options.racks is not None:
        return Placement(settings, read_racks(options.racks), f"--racks {options.racks}", placement_option)
    if options.rack_script is not None:
        return Placement(settings, None, f"--rack-script {options.rack_script}", placement_option)
    path = f"{store.root.rpartition('/')[0]}/{PULSAR_MAPPING}"
    mapping_source = f"{path} in {uri.text}"
    try:
        mapping_bytes = sibling_value(store, PULSAR_MAPPING)
        entries = bookie_racks.decode(mapping_bytes) if mapping_bytes is not None else []
    except (StoreError, DecodeError) as error:
        unread_remark = remark(
            RemarkKind.LOCATIONS_UNREAD, "the racks of Pulsar could not be read", f"{mapping_source}: {error}"
        )
        return Placement(settings, {}, None, placement_option, (unread_remark,))
    if entries:
        return Placement(
            settings, mapping_of_pulsar(entries, mapping_source), mapping_source, placement_option
        )
    # Below a chroot, brokers may use another root, which the audit does not see. Without a chroot, they
    # cannot.
    has_chroot = path != f"/{PULSAR_MAPPING}"
    return Placement(
        settings, {}, None, placement_option, (_no_racks_remark(mapping_source),) if has_chroot else ()
    )


def write_locations(
    cache: TableCache,
    placement: Placement,
    bookies: Sequence[Mapping[str, Any]],
    registrations: Sequence[Mapping[str, Any]],
    options: AuditOptions,
) -> None:
    """Look up every bookie in the mapping, and write the table ``bookie_locations``.

    Raises:
        UsageError: the script cannot be run, or does not answer.
    """
    hosts = {row["bookie_id"]: row["host"] for row in registrations if row["used"]}
    mapping = placement.mapping
    if mapping is None:
        assert options.rack_script is not None
        mapping = ask_script(options.rack_script, [host for host in hosts.values() if host])
    locations = locate_all({row["bookie_id"]: hosts.get(row["bookie_id"]) for row in bookies}, mapping)
    # Pulsar's policy counts all bookies that its groups name, also bookies that no longer exist.
    used_locations = {id(location) for location in locations.values()}
    locations |= {
        name: replace(location, path=None)
        for name, location in mapping.items()
        if location.groups and id(location) not in used_locations
    }
    rows = [
        {
            "bookie_id": bookie,
            "location": location.path,
            "given": location.source_text,
            "groups": list(location.groups),
            "origin": location.origin,
        }
        for bookie, location in locations.items()
    ]
    cache.write_rows("bookie_locations", rows, BOOKIE_LOCATIONS)


def with_placement(cache: TableCache, tables: Tables) -> Tables:
    """Return ``tables`` with the table ``placement``, or unchanged if placement cannot be judged.

    Placement cannot be judged without a policy. It is also not judged if no bookie has a location, because
    every ledger would then break the policy. The check bookie-without-location reports that case once.
    """
    settings, roster = tables.cluster.placement, tables.roster
    if settings is None or settings.policy is Policy.NONE or not roster.locations.has_known_location:
        return tables
    names = sorted(row["bookie_id"] for row in roster.bookies)
    mode_by_bookie = {row["bookie_id"]: row["registered"] for row in roster.bookies if row["registered"]}
    writable_bookies = [name for name, mode in mode_by_bookie.items() if mode != "readonly"]
    placement_judge = PlacementJudge.for_cluster(
        settings, roster.locations, names, writable_bookies, mode_by_bookie
    )
    rows = cache.write_table(
        "placement", lambda: placement(cache.spark, cache.files("ledgers"), placement_judge)
    )
    return tables.add(placement=rows)


def placement_remarks(placement: Placement, facts: PlacementFacts | None) -> list[Remark]:
    """Return remarks about the policy and the locations by which ledgers were judged.

    The remarks also say where the policy and the locations come from.
    """
    if facts is None:
        return list(placement.remarks)
    bookie_count = facts["located"] + facts["unlocated"]
    located_text = (
        f"locations of {facts['located']} of {bookie_count} bookies come from {facts['mapping_origin']}"
    )
    policy = f"policy {policy_sentence(placement.settings)}, from {facts['policy_origin']}"
    mapping = located_text if facts["mapping_origin"] else "no mapping of bookies to locations was found"
    policy_remark = remark(RemarkKind.PLACEMENT, "placement was checked", policy, mapping)
    return [*placement.remarks, policy_remark, *_groups_remarks(placement.settings, facts)]


def _groups_remarks(settings: PlacementSettings, facts: PlacementFacts) -> Iterator[Remark]:
    """Yield one remark if isolation groups are configured, and one if ledgers have their own policies."""
    if settings.groups is not None:
        groups_text = f"{settings.groups.text}, from {settings.origin}"
        yield remark(RemarkKind.PLACEMENT, "isolation groups are in force", groups_text)
    if facts["own_groups"]:
        own_policy_text = plural(facts["own_groups"], "ledger")
        groups_remark = f"{own_policy_text} has its own placement policy" if facts["own_groups"] == 1 else ""
        yield remark(
            RemarkKind.PLACEMENT,
            groups_remark or f"{own_policy_text} have their own placement policies",
            f"{KEY} in custom metadata",
        )


def placement_facts(
    placement: Placement, locations: Locations, bookies: Sequence[str], own_policies: int
) -> PlacementFacts | None:
    """Return the facts about placement for the report, or None if placement was not judged."""
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
        "own_groups": own_policies,
    }
