"""The placement policy that the options give, and what two configurations say differently.

``--placement`` is what brokers, or whoever writes, go by; ``--bookie-conf`` what AutoRecovery goes by. Where
both are configuration files they are compared: AutoRecovery that has other rules, or another mapping, undoes
what brokers do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from auditor.codecs.bookie import java_properties
from auditor.errors import DecodeError, UsageError
from auditor.model.options import AuditOptions
from auditor.model.placement import KEYS, POLICY_KEYS, PlacementSettings, Policy
from auditor.sources.metadata.uri import METADATA_STORE, parse_metadata_uri, redact
from auditor.sources.racks import read_racks
from auditor.sources.regular_file import read_regular

DEFAULT_POLICY = "the default of bookies and brokers"
RESOLVER = "reppDnsResolverClass"
PULSAR_RESOLVER = "BookieRackAffinityMapping"
"""How the names of Pulsar's resolvers end, the old one too."""


def check_placement(options: AuditOptions) -> PlacementSettings:
    """The policy and settings that the options give, for their errors before anything is read.

    Raises:
        UsageError: invalid options, alone or together.
    """
    if options.racks is not None and options.rack_script is not None:
        raise UsageError("--racks and --rack-script: give one mapping, not two")
    if options.racks is not None:
        read_racks(options.racks)
    settings_differences(options, pulsar=False)
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


def settings_differences(options: AuditOptions, *, pulsar: bool) -> tuple[str, ...]:
    """What AutoRecovery's configuration says otherwise than the brokers', in sentences; none without both.

    ``pulsar``: the mapping that was found is Pulsar's own, in a metadata store.
    """
    placement = options.placement
    if placement is None or placement.split(",")[0] in [*Policy] or options.bookie_conf is None:
        return ()
    broker = _properties("--placement", placement)
    bookie = _properties("--bookie-conf", options.bookie_conf)
    return tuple(_differences(broker, bookie, options, pulsar))


def _differences(
    broker: Mapping[str, str], bookie: Mapping[str, str], options: AuditOptions, pulsar: bool
) -> Iterator[str]:
    theirs, ours = (
        _settings(each, f"{option} {path}")
        for option, path, each in (
            ("--placement", options.placement, broker),
            ("--bookie-conf", options.bookie_conf, bookie),
        )
    )
    if theirs.policy is not ours.policy:
        yield f"its policy is {ours.policy}, theirs {theirs.policy}"
    values = theirs.to_json()
    for name, value in ours.to_json().items():
        if value != values[name]:
            here, there = ("not set" if each is None else each for each in (value, values[name]))
            yield f"{name} is {here}, theirs {there}"
    resolver = bookie.get(RESOLVER, "").strip()
    if pulsar and not resolver.endswith(PULSAR_RESOLVER):
        yield f"{RESOLVER} is {resolver or 'not set'}, which does not read Pulsar's mapping"
    uri = bookie.get("metadataServiceUri", "").strip()
    store = broker.get("metadataStoreUrl", "").strip()
    if store and not store.startswith(_KINDS):
        store = f"zk:{store}"
    here, there = _place(uri), _place(f"{METADATA_STORE}{store}")
    if here and there and here != there:
        yield f"it looks for the mapping in {redact(uri)}, they in {redact(store)}"
    if pulsar and uri and not uri.startswith(METADATA_STORE):
        yield f"metadataServiceUri is {redact(uri)}, and Pulsar's resolver reads {METADATA_STORE} URIs only"


_KINDS = ("zk:", "etcd:", "oxia:", "rocksdb:", "memory:")
"""How the URLs of Pulsar's metadata stores begin; others are hosts of ZooKeeper."""


def _place(uri: str) -> tuple[str, frozenset[str], str] | None:
    """Where a metadata URI has the mapping: kind, hosts, the path above it; None where that is not known."""
    try:
        parsed = parse_metadata_uri(uri)
    except UsageError:
        return None
    return parsed.scheme.removeprefix(METADATA_STORE), frozenset(parsed.hosts), parsed.root.rpartition("/")[0]


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
