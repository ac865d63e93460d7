"""The kinds of metadata stores, and functions to open, recognise and probe stores and to count ledgers.

A new kind of store needs three things: a scheme in `auditor.sources.metadata.uri`, an implementation of
`auditor.sources.metadata.store.MetadataStore` in its own module, and a row in `STORES`. Rows name modules
instead of importing them. So reading a dump needs neither kazoo nor grpc.

The store decides the layout of its ledgers. If the URI names a layout too, it must be the same layout
(`choose_layout`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from auditor.codecs.store import layout as layout_codec
from auditor.errors import DecodeError, RuleError, StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.credentials import credentials_file, read_credentials
from auditor.sources.metadata.pulsar_layout import has_pulsar_layout
from auditor.sources.metadata.store import ClusterNodes, LedgerCount, MetadataStore, Server, StoreOptions
from auditor.sources.metadata.uri import (
    ETCD_WITH_PATH_KEYS,
    OXIA,
    SNAPSHOT_WITH_PATH_KEYS,
    MetadataUri,
    parse_metadata_uri,
)
from auditor.spark.concurrency import max_slots, max_task_attempts, running_slots
from auditor.spark.types import SparkSession

if TYPE_CHECKING:
    from auditor.model.options import AuditOptions


@dataclass(frozen=True, slots=True)
class StoreKind:
    """The functions for one kind of store, each named as ``module:function`` of this package.

    Attributes:
        opener: takes the parsed URI and, for a running store, also `StoreOptions`. It returns the store,
            and does not connect yet.
        recogniser: takes the parsed URI of a saved store, and raises `StoreError` if the file is of a
            different kind. None for a running store.
        counter: takes the parsed URI, the layout and the options, and counts the ledgers of a running
            store. The module of the counter also has the function ``probe``, which takes one host and the
            options. None for a saved store.
    """

    opener: str
    recogniser: str | None = None
    counter: str | None = None

    @property
    def live(self) -> bool:
        """Return whether this is a kind of running store, which changes while it is read."""
        return self.counter is not None


STORES = {
    "zk": StoreKind("zookeeper.live:ZooKeeperStore", counter="zookeeper.live:count_ledgers"),
    "zk-snapshot": StoreKind("zookeeper.snapshot:ZooKeeperSnapshotStore", "zookeeper.files:recognise"),
    "etcd": StoreKind("etcd.live:EtcdStore", counter="etcd.live:count_ledgers"),
    "etcd-snapshot": StoreKind("etcd.snapshot:EtcdSnapshotStore", "etcd.snapshot:recognise"),
    ETCD_WITH_PATH_KEYS: StoreKind("etcd.live:PathEtcdStore", counter="etcd.live:count_path_ledgers"),
    SNAPSHOT_WITH_PATH_KEYS: StoreKind("etcd.snapshot:PathEtcdSnapshotStore", "etcd.snapshot:recognise"),
    OXIA: StoreKind("oxia.live:OxiaStore", counter="oxia.live:count_ledgers"),
    "dump": StoreKind("dump.store:open_dump", "dump.records:recognise"),
}
"""Kinds of stores, by the scheme of `MetadataUri`."""

CONNECT_PROBE_SECONDS = 1.0
"""Seconds that `check_reachable` waits for a connection.

A server that does not refuse within this time counts as reachable. The client then waits longer.
"""

PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Environment variables of gRPC proxies. A proxy may resolve hosts that this machine cannot resolve."""


def open_store(uri: str | MetadataUri, options: StoreOptions | None = None) -> MetadataStore:
    """Return the store that a URI names. The store does not connect to anything yet.

    >>> open_store("dump:///audit/metadata.jsonl").root
    '/ledgers'

    Raises:
        UsageError: the URI is invalid.
    """
    metadata_uri = parse_metadata_uri(uri)
    kind = STORES[metadata_uri.scheme]
    open_arguments = (options or StoreOptions(),) if kind.live else ()
    store: MetadataStore = _load(kind.opener)(metadata_uri, *open_arguments)
    return store


def is_live(uri: str | MetadataUri) -> bool:
    """Return whether a metadata URI names a running store, which changes while it is read.

    >>> is_live("zk://h1:2181/ledgers"), is_live("dump:///audit/metadata.jsonl")
    (True, False)

    Raises:
        UsageError: the URI is invalid.
    """
    return STORES[parse_metadata_uri(uri).scheme].live


def recognise(uri: str | MetadataUri) -> None:
    """Check that a saved store is of the kind that its URI names, by the first bytes of its files.

    Raises:
        UsageError: the URI is invalid.
        StoreError: the file is missing, or is of a different kind. The message names the apparent kind.
    """
    metadata_uri = parse_metadata_uri(uri)
    recogniser = STORES[metadata_uri.scheme].recogniser
    if recogniser is not None:
        _load(recogniser)(metadata_uri)


def check_reachable(uri: str | MetadataUri, options: StoreOptions | None = None) -> None:
    """Raise an error at once if no server of a running store can be reached.

    A server cannot be reached if its host does not resolve, or if it refuses the connection. Commands call
    this function first. A client would retry for the whole time-out, because the server may be restarting.
    Such retries are right only during a scan. If a server accepts the connection or is slow, this function
    returns, and the client waits for the server.

    Raises:
        UsageError: the URI or the credentials file is invalid.
        StoreError: no server can be reached. The message gives the reason for each host.
    """
    metadata_uri = parse_metadata_uri(uri)
    if not metadata_uri.hosts:
        return
    read_credentials(options.credentials if options else None)  # report wrong credentials before wrong hosts
    if metadata_uri.scheme != "zk" and any(map(os.environ.get, PROXY_VARIABLES)):
        return
    problems = []
    for host in metadata_uri.hosts:
        name, _, port = host.rpartition(":")
        try:
            socket.create_connection(
                (name.strip("[]"), int(port)), CONNECT_PROBE_SECONDS, all_errors=True
            ).close()
            return
        except (socket.gaierror, UnicodeError) as error:
            problems.append(f"{host} does not resolve ({getattr(error, 'strerror', None) or error})")
        except ExceptionGroup as group:  # one error for each address of the host
            if group.subgroup(TimeoutError):
                return
            address_reasons = {
                str(address_error.strerror): 1
                for address_error in group.exceptions
                if isinstance(address_error, OSError)
            }
            problems.append(f"{host}: {' and '.join(address_reasons)}")
    raise StoreError(
        f"cannot connect to {metadata_uri.text}: {'; '.join(problems)}; check the hosts of the metadata URI, "
        "and that this machine can reach them"
    )


def count_ledgers(uri: str | MetadataUri, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Count or estimate the ledgers of a running store, within the limits of ``options``.

    Raises:
        StoreError: the store cannot be reached.
        UsageError: the store is a saved one. To count its ledgers, all of it would have to be read.
    """
    metadata_uri = parse_metadata_uri(uri)
    counter = STORES[metadata_uri.scheme].counter
    if counter is None:
        raise UsageError(f"{metadata_uri.text}: ledgers can be counted only in a running store")
    ledger_count: LedgerCount = _load(counter)(metadata_uri, layout, options)
    return ledger_count


def probe_servers(uri: str | MetadataUri, options: StoreOptions) -> list[Server]:
    """Probe each server of a running store once, in the order of the URI. Return [] for a saved store.

    >>> probe_servers("dump:///saved/metadata.jsonl", StoreOptions())
    []
    """
    metadata_uri = parse_metadata_uri(uri)
    counter = STORES[metadata_uri.scheme].counter
    if counter is None:
        return []
    probe = _load(f"{counter.partition(':')[0]}:probe")
    return [probe(host, options) for host in metadata_uri.hosts]


def _load(name: str) -> Callable[..., Any]:
    module, _, function_name = name.partition(":")
    probe_function: Callable[..., Any] = getattr(
        import_module(f"auditor.sources.metadata.{module}"), function_name
    )
    return probe_function


def store_options(options: AuditOptions) -> StoreOptions:
    """Return the limits and the credentials file that an audit uses to read the metadata.

    >>> from auditor.model.options import AuditOptions
    >>> store_options(AuditOptions(rate_limit=50)).rate_limit
    50.0

    Raises:
        UsageError: the credentials file is invalid.
    """
    return StoreOptions(
        rate_limit=options.rate_limit,
        in_flight=options.in_flight,
        timeout_s=options.timeout,
        batch=options.batch,
        credentials=credentials_file(options.credentials),
    )


def source_options(
    spark: SparkSession,
    options: AuditOptions,
    named_options: Mapping[str, Any],
    pinned_nodes: ClusterNodes | None = None,
) -> dict[str, str]:
    """Return the options for a Spark data source that reads a store within the audit's limits.

    All tasks share the limits. If Spark may add executors without a limit, the source gets only as many
    parts as there are task slots now. Each part then has its own share of the rate.

    Args:
        spark: the session that will read the source.
        options: the audit's options.
        named_options: further options of the source. Options whose value is None are omitted.
        pinned_nodes: result of `MetadataStore.cluster`, so that etcd is read at the same revision; None for
            the newest revision.
    """
    slot_limit = max_slots(spark)
    # The executors of a new session may not have started yet.
    slot_count = max(running_slots(spark), spark.sparkContext.defaultParallelism)
    store = store_options(options)
    source_settings = {
        **asdict(replace(store, rate_limit=store.rate_limit / max_task_attempts(spark))),
        "parts": slot_count if slot_limit is None else slot_limit * options.parts_per_core,
        "at_once": slot_limit,
        **named_options,
    }
    if pinned_nodes is not None and pinned_nodes.revision is not None:
        source_settings |= {"revision": pinned_nodes.revision, "revision_time": pinned_nodes.scan_time}
    return {
        option_key: str(option_value)
        for option_key, option_value in source_settings.items()
        if option_value is not None
    }


def choose_layout(store: MetadataStore, cluster: ClusterNodes) -> tuple[LayoutKind, str]:
    """Return the layout of a store's ledgers, and a sentence for the report that says how it was found.

    In a store with ZooKeeper's paths, the LAYOUT znode decides. BookKeeper's etcd driver has only one
    layout, and the layout key must name this layout.

    Raises:
        UsageError: the URI and the LAYOUT znode name different layouts. The message names both.
        StoreError: the LAYOUT znode cannot be read or understood, so no path has a known meaning. The error
            is also raised if the znode names the ledger manager of another kind of store.
    """
    if store.keeps_marks:  # the store has ZooKeeper's paths
        return _layout_of_paths(store, cluster)
    return _layout_in_etcd(store.uri, cluster)


def _layout_of_paths(store: MetadataStore, cluster: ClusterNodes) -> tuple[LayoutKind, str]:
    uri, uri_layout = store.uri, store.uri.layout
    znode = cluster.nodes.get("LAYOUT")
    for path, reason in cluster.gaps:
        # An unreadable LAYOUT is not an absent one: nothing can be assumed.
        if path.rpartition("/")[2] == "LAYOUT":
            raise StoreError(f"--metadata {uri}: its layout at {path} cannot be read: {reason}")
    if znode is None and has_pulsar_layout(store, cluster):
        return (
            LayoutKind.HIERARCHICAL,
            "no LAYOUT znode, as in every store of Pulsar: the layout is hierarchical",
        )
    if znode is None:
        layout_source = (
            "the layout is that of the URI" if uri_layout else "the layout hierarchical is assumed"
        )
        return uri_layout or LayoutKind.HIERARCHICAL, f"no LAYOUT znode: {layout_source}"
    try:
        kind = layout_codec.decode(znode.data).kind
    except (DecodeError, RuleError) as error:
        raise StoreError(f"--metadata {uri}: its LAYOUT znode cannot be understood: {error}") from error
    if kind is LayoutKind.ETCD:
        raise StoreError(
            f"--metadata {uri}: its LAYOUT znode names etcd's ledger manager, which keeps ledgers in etcd, "
            "but its paths are ZooKeeper's"
        )
    if uri_layout is not None and uri_layout is not kind:
        raise UsageError(
            f"--metadata {uri}: the URI says {uri_layout.value}, but the LAYOUT znode says {kind.value}"
        )
    return kind, f"LAYOUT says {kind.value}"


def _layout_in_etcd(uri: MetadataUri, cluster: ClusterNodes) -> tuple[LayoutKind, str]:
    layout_node = cluster.nodes.get("LAYOUT")
    if layout_node is None:
        return LayoutKind.ETCD, "no layout key: etcd has only one layout"
    try:
        layout = layout_codec.decode(layout_node.data)
        kind = layout.kind
    except DecodeError as damage:
        return (
            LayoutKind.ETCD,
            f"the layout key cannot be understood ({damage}); etcd has only one layout, which is used",
        )
    except RuleError as error:
        raise StoreError(f"--metadata {uri}: {layout_node.path} cannot be understood: {error}") from error
    if kind is not LayoutKind.ETCD:
        raise StoreError(
            f"--metadata {uri}: {layout_node.path} names {layout.manager}, which keeps ledgers in ZooKeeper, "
            "or at ZooKeeper's paths in etcd (metadata-store:etcd://host:2379/ledgers)"
        )
    return kind, "the layout key says etcd"
