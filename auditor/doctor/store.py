"""Check of the metadata store: the servers that answer, the access rights, and the cost of a scan."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from auditor.errors import StoreError, UsageError
from auditor.model.amounts import age, duration, first_names, plural
from auditor.model.options import AuditOptions, parse_moment
from auditor.model.report import NOT_COVERED, UNREACHABLE, USAGE
from auditor.reports.doctor import STORE, Line, State
from auditor.sources.clock import now_ms
from auditor.sources.metadata.credentials import BookieCredentials, Credentials, Tls
from auditor.sources.metadata.pulsar_layout import has_pulsar_layout
from auditor.sources.metadata.store import ClusterNodes, MetadataStore, OnePathStore, Server, StoreOptions
from auditor.sources.metadata.stores import (
    check_reachable,
    choose_layout,
    count_ledgers,
    open_store,
    probe_servers,
    store_options,
)
from auditor.sources.metadata.uri import ETCD_WITH_PATH_KEYS, OXIA, MetadataUri
from auditor.tables.registry import instance_id, instance_id_missing, store_cookies

PROBES = 5
"""Number of reads to measure the latency. The check reports their median."""

SKEW_MS = 1000
"""Smallest lead of a server's clock over this machine's clock to report, in ms. NTP keeps clocks far closer.
"""

HOSTS_NAMED = 3
"""Largest number of answering servers to name when another server does not answer."""

SCANS = 2
"""Number of times that an audit scans a running store: once before and once after it reads the bookies."""


@dataclass
class Metadata:
    """Facts about the store for the other checks. ``nodes`` is None if the store could not be read."""

    store: MetadataStore
    options: StoreOptions
    nodes: ClusterNodes | None = None
    scan_time: int | None = None
    lines: list[Line] = field(default_factory=list)


def read_metadata(uri: MetadataUri, credentials: Credentials, options: AuditOptions) -> Metadata:
    """Read the records of bookies and some hundreds of znodes, and record a line for each result."""
    store = open_store(uri, store_options(options))
    metadata = Metadata(store, store_options(options))
    with closing(store):
        metadata.lines.extend(_lines(metadata, credentials, options))
    return metadata


def _lines(metadata: Metadata, credentials: Credentials, options: AuditOptions) -> Iterator[Line]:
    store, uri = metadata.store, metadata.store.uri
    if store.live:
        yield _credentials(uri, credentials, metadata.options.credentials)
        servers = probe_servers(uri, metadata.options)
        for server in servers:
            yield _server(server, servers)
    start_time = time.monotonic()
    try:
        check_reachable(uri)
        nodes = store.cluster()
    except (StoreError, OSError) as error:
        remedy = None if isinstance(error, StoreError) else "the metadata URI names the file"
        yield STORE.fail("access", str(error), remedy, UNREACHABLE)
        return
    metadata.nodes = nodes
    metadata.scan_time = nodes.scan_time if options.scan_time is None else parse_moment(options.scan_time)
    seconds = time.monotonic() - start_time
    text = f"{plural(len(nodes.nodes), 'znode or key', 'znodes or keys')} of the cluster itself read in "
    yield STORE.ok("access", f"{text}{duration(seconds)}, at {nodes.position}")
    if nodes.gaps:
        path, reason = nodes.gaps[0]
        yield STORE.warn(
            "rights",
            f"{plural(len(nodes.gaps), 'path')} cannot be read, the first: {path}: {reason}",
            "let this user read everything below the root: unread metadata is unknown, and no run is "
            "complete",
            NOT_COVERED,
        )
    if nodes.cut is not None:
        remedy = "make the dump with bkaudit dump: the last line shows that the dump is complete"
        yield STORE.warn("end", nodes.cut, remedy, NOT_COVERED)
    for note in nodes.notes:
        yield STORE.ok("note", note)
    try:
        layout, reason = choose_layout(store, nodes)
    except UsageError as error:
        yield STORE.fail("layout", str(error), "leave the suffix out: zk://...", USAGE)
        return
    except StoreError as error:
        yield STORE.fail("layout", str(error), None, UNREACHABLE)
        return
    is_known = "LAYOUT" in nodes.nodes or has_pulsar_layout(store, nodes)
    yield Line("store", "layout", State.OK if is_known else State.WARN, reason)
    yield _instance(nodes)
    yield _clock(store, nodes)
    if not store.live:
        return
    yield _latency(store)
    try:
        count = count_ledgers(uri, layout, metadata.options)
    except StoreError as error:
        yield STORE.fail("ledgers", str(error), None, UNREACHABLE)
        return
    yield from _cost_lines(count.ledgers, count.is_exact, options)


def _credentials(uri: MetadataUri, credentials: Credentials, path: str | None) -> Line:
    if path is None:
        return STORE.ok("credentials", "none: the client does not log in and uses no TLS")
    section, credential_words, tls = _store_credentials(uri.scheme, credentials)
    if not credential_words and tls is None and credentials.bookies != BookieCredentials():
        return STORE.ok(
            "credentials",
            f"{path}: only for bookies; the client of the store does not log in and uses no TLS",
        )
    if not credential_words and tls is None:
        return STORE.warn(
            "credentials",
            f"{path} has no section for this store",
            f"write a section [{section}] or [{section}.tls], or leave --credentials out",
        )
    methods = ", ".join([*credential_words, "TLS" if tls else "without TLS"])
    if tls is not None and not tls.verify:
        return STORE.warn(
            "credentials",
            f"{path}: {methods}, and the server is not verified",
            "set ca to the certificate authority, and remove verify",
        )
    return STORE.ok("credentials", f"{path}: {methods}")


def _store_credentials(scheme: str, credentials: Credentials) -> tuple[str, list[str], Tls | None]:
    """Return the credentials for a kind of store.

    Returns:
        The name of the section in the credentials file, a phrase for each login in it, and the TLS files.
        The TLS files are None for a plain connection.
    """
    if scheme in ("etcd", ETCD_WITH_PATH_KEYS):
        login = credentials.etcd.login
        return "etcd", [f"user {login.user}"] if login else [], credentials.etcd.tls
    if scheme == OXIA:
        return "oxia", ["a token"] if credentials.oxia.token else [], credentials.oxia.tls
    credential_words = []
    if login := credentials.zookeeper.digest:
        credential_words.append(f"digest user {login.user}")
    if sasl := credentials.zookeeper.sasl:
        credential_words.append(f"SASL {sasl.mechanism}")
    return "zookeeper", credential_words, credentials.zookeeper.tls


def _server(server: Server, servers: Sequence[Server]) -> Line:
    if not server.is_reached:
        reached_hosts = [candidate.host for candidate in servers if candidate.is_reached]
        remedy = (
            f"an audit reads from {first_names(reached_hosts, HOSTS_NAMED)}"
            if reached_hosts
            else "check the host, the port and the firewall: no other server in the URI answers"
        )
        return STORE.warn("server", f"{server.host} does not answer: {server.failure_reason}", remedy)
    text = f"{server.host} answers in {server.latency_ms:.1f} ms"
    if server.version is None:
        return STORE.not_asked("server", f"{text}; its version is not known: {server.failure_reason}")
    mode = f", {server.mode}" if server.mode else ""
    return STORE.ok("server", f"{text}, version {server.version}{mode}")


def _instance(nodes: ClusterNodes) -> Line:
    stored_id = instance_id(nodes)
    if stored_id is not None:
        return STORE.ok("instance id", stored_id)
    missing = instance_id_missing(nodes) and nodes.cut is None
    stored_cookies = store_cookies(nodes)
    if missing and all(
        cookie.cookie is not None and cookie.cookie.instance_id is None for cookie in stored_cookies
    ):
        return STORE.ok("instance id", "the cluster never had an instance id, and no cookie has one")
    problem = "the cluster has no instance id" if missing else "the instance id could not be read"
    return STORE.warn(
        "instance id",
        f"{problem}: disks of another cluster cannot be distinguished from this one's",
        "bkaudit explain check instance-id-missing",
    )


def _clock(store: MetadataStore, nodes: ClusterNodes) -> Line:
    current_ms = now_ms()
    if not store.live:
        text = f"saved metadata; ages count from {age(nodes.scan_time, current_ms)}"
        if nodes.scan_time - current_ms > SKEW_MS:
            remedy = "set this machine's clock by NTP, or give --scan-time"
            return STORE.warn("clock", text, remedy)
        return STORE.ok("clock", text)
    if not store.keeps_times:
        return STORE.not_asked("clock", "etcd keeps no times; ages count from this machine's clock")
    newest_node_ms = (
        max((max(node.ctime, node.mtime) for node in nodes.nodes.values()), default=0) - current_ms
    )
    if newest_node_ms > SKEW_MS:
        return STORE.warn(
            "clock",
            f"the store has a time that is {duration(newest_node_ms / 1000)} ahead of this machine's clock",
            "set this machine's clock by NTP: ages and --grace count from it",
        )
    return STORE.ok("clock", "no time in the store is ahead of this machine's clock")


def _latency(store: MetadataStore) -> Line:
    assert isinstance(store, OnePathStore)
    part = store.part_of_path(f"{store.root}/{'LAYOUT' if store.keeps_marks else 'layout'}")
    times = []
    for _ in range(PROBES):
        start_time = time.monotonic()
        for _batch in store.read(part):
            pass
        times.append((time.monotonic() - start_time) * 1000)
    return STORE.ok("latency", f"one read takes {statistics.median(times):.1f} ms")


def _cost_lines(ledgers: int, is_exact: bool, options: AuditOptions) -> Iterator[Line]:
    text = f"{'' if is_exact else 'about '}{plural(ledgers, 'ledger')}"
    if options.rate_limit:
        scan = duration(SCANS * ledgers / options.rate_limit)
        text += f": the two scans take {scan} or longer at {options.rate_limit:,.0f} reads per second"
    yield STORE.ok("ledgers", text)
    request_limits = (
        f"up to {options.in_flight} unanswered requests of {options.batch} reads on each connection"
    )
    if options.rate_limit:
        rate = f"{options.rate_limit:,.0f} reads per second over all tasks"
        yield STORE.ok("rates", f"{rate}, {request_limits}")
    else:
        yield STORE.warn(
            "rates",
            f"no limit of reads per second, {request_limits}",
            "give --rate-limit for a store in service",
        )
