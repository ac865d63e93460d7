"""Check of the metadata store: the servers that answer, the access rights, and the cost of a scan."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from auditor.errors import StoreError, UsageError
from auditor.model.amounts import age, duration, first_names, plural
from auditor.model.options import AuditOptions, to_time_ms
from auditor.model.report import EXIT_NOT_COVERED, EXIT_UNREACHABLE, EXIT_USAGE
from auditor.reports.doctor import STORE_TOPIC, AnswerLine, AnswerState
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

LATENCY_READS = 5
"""Number of reads for the latency. The check reports the median of their times."""

MIN_REPORTED_SKEW_MS = 1000
"""Lead of a server's clock over this machine's clock from which the check warns, in ms.

NTP keeps the difference far smaller.
"""

MAX_HOSTS_NAMED = 3
"""Largest number of answering servers to name if a server does not answer."""

SCANS_PER_AUDIT = 2
"""Number of times that an audit scans a running store: before and after it reads the bookies."""


@dataclass
class Metadata:
    """Facts about the store that the other checks use.

    ``nodes`` has all records except those of ledgers. It is None if the store could not be read. ``lines``
    has a line of text for each check.
    """

    store: MetadataStore
    options: StoreOptions
    nodes: ClusterNodes | None = None
    scan_time: int | None = None
    lines: list[AnswerLine] = field(default_factory=list)


def read_metadata(uri: MetadataUri, credentials: Credentials, options: AuditOptions) -> Metadata:
    """Check the store, and return facts about it with one line of text for each check.

    The function reads the records of bookies. To count ledgers, it reads some hundreds of znodes.
    """
    store = open_store(uri, store_options(options))
    metadata = Metadata(store, store_options(options))
    with closing(store):
        metadata.lines.extend(_store_lines(metadata, credentials, options))
    return metadata


def _store_lines(metadata: Metadata, credentials: Credentials, options: AuditOptions) -> Iterator[AnswerLine]:
    store, uri = metadata.store, metadata.store.uri
    if store.live:
        yield _credentials_line(uri, credentials, metadata.options.credentials)
        servers = probe_servers(uri, metadata.options)
        for server in servers:
            yield _server_line(server, servers)
    start_time = time.monotonic()
    try:
        check_reachable(uri)
        nodes = store.cluster()
    except (StoreError, OSError) as error:
        remedy_text = None if isinstance(error, StoreError) else "check the file in the metadata URI"
        yield STORE_TOPIC.fail("access", str(error), remedy_text, EXIT_UNREACHABLE)
        return
    metadata.nodes = nodes
    metadata.scan_time = nodes.scan_time if options.scan_time is None else to_time_ms(options.scan_time)
    read_seconds = time.monotonic() - start_time
    text = f"read {plural(len(nodes.nodes), 'znode or key', 'znodes or keys')} about the cluster itself in "
    yield STORE_TOPIC.ok("access", f"{text}{duration(read_seconds)}, at {nodes.position}")
    if nodes.gaps:
        path, reason = nodes.gaps[0]
        yield STORE_TOPIC.warn(
            "rights",
            f"{plural(len(nodes.gaps), 'path')} cannot be read, the first: {path}: {reason}",
            "give this user read access to all paths below the root: until then no run is complete",
            EXIT_NOT_COVERED,
        )
    if nodes.damage is not None:
        remedy_text = "make the dump with bkaudit dump: its last line shows that the dump is complete"
        yield STORE_TOPIC.warn("end", nodes.damage, remedy_text, EXIT_NOT_COVERED)
    for note in nodes.notes:
        yield STORE_TOPIC.ok("note", note)
    try:
        layout, reason = choose_layout(store, nodes)
    except UsageError as error:
        yield STORE_TOPIC.fail(
            "layout", str(error), "leave out the layout suffix of the URI, as in zk://...", EXIT_USAGE
        )
        return
    except StoreError as error:
        yield STORE_TOPIC.fail("layout", str(error), None, EXIT_UNREACHABLE)
        return
    is_layout_certain = "LAYOUT" in nodes.nodes or has_pulsar_layout(store, nodes)
    yield AnswerLine("store", "layout", AnswerState.OK if is_layout_certain else AnswerState.WARN, reason)
    yield _instance_line(nodes)
    yield _clock_line(store, nodes)
    if not store.live:
        return
    yield _latency_line(store)
    try:
        count = count_ledgers(uri, layout, metadata.options)
    except StoreError as error:
        yield STORE_TOPIC.fail("ledgers", str(error), None, EXIT_UNREACHABLE)
        return
    yield from _cost_lines(count.ledgers, count.is_exact, options)


def _credentials_line(uri: MetadataUri, credentials: Credentials, path: str | None) -> AnswerLine:
    if path is None:
        return STORE_TOPIC.ok("credentials", "none: the client does not log in and uses no TLS")
    section_name, login_texts, tls = _store_credentials(uri.scheme, credentials)
    if not login_texts and tls is None and credentials.bookies != BookieCredentials():
        return STORE_TOPIC.ok(
            "credentials",
            f"{path}: only for bookies; the client of the store does not log in and uses no TLS",
        )
    if not login_texts and tls is None:
        return STORE_TOPIC.warn(
            "credentials",
            f"{path} has no section for this store",
            f"write a section [{section_name}] or [{section_name}.tls], or leave --credentials out",
        )
    methods_text = ", ".join([*login_texts, "TLS" if tls else "without TLS"])
    if tls is not None and not tls.verify:
        return STORE_TOPIC.warn(
            "credentials",
            f"{path}: {methods_text}, but the server is not verified",
            "set ca to the certificate authority, and remove verify",
        )
    return STORE_TOPIC.ok("credentials", f"{path}: {methods_text}")


def _store_credentials(scheme: str, credentials: Credentials) -> tuple[str, list[str], Tls | None]:
    """Return the credentials for a kind of store.

    Returns:
        The name of the section in the credentials file, a phrase for each login in it, and the TLS settings.
        The TLS settings are None for a connection without TLS.
    """
    if scheme in ("etcd", ETCD_WITH_PATH_KEYS):
        login = credentials.etcd.login
        return "etcd", [f"user {login.user}"] if login else [], credentials.etcd.tls
    if scheme == OXIA:
        return "oxia", ["a token"] if credentials.oxia.token else [], credentials.oxia.tls
    login_texts = []
    if login := credentials.zookeeper.digest:
        login_texts.append(f"digest user {login.user}")
    if sasl := credentials.zookeeper.sasl:
        login_texts.append(f"SASL {sasl.mechanism}")
    return "zookeeper", login_texts, credentials.zookeeper.tls


def _server_line(server: Server, servers: Sequence[Server]) -> AnswerLine:
    if not server.is_reached:
        reached_hosts = [other_server.host for other_server in servers if other_server.is_reached]
        remedy_text = (
            f"an audit reads from {first_names(reached_hosts, MAX_HOSTS_NAMED)}"
            if reached_hosts
            else "check the host, the port and the firewall: no other server in the URI answers"
        )
        return STORE_TOPIC.warn(
            "server", f"{server.host} does not answer: {server.failure_reason}", remedy_text
        )
    text = f"{server.host} answers in {server.latency_ms:.1f} ms"
    if server.version is None:
        return STORE_TOPIC.not_asked("server", f"{text}; its version is not known: {server.failure_reason}")
    mode_text = f", {server.mode}" if server.mode else ""
    return STORE_TOPIC.ok("server", f"{text}, version {server.version}{mode_text}")


def _instance_line(nodes: ClusterNodes) -> AnswerLine:
    stored_id = instance_id(nodes)
    if stored_id is not None:
        return STORE_TOPIC.ok("instance id", stored_id)
    is_missing = instance_id_missing(nodes) and nodes.damage is None
    stored_cookies = store_cookies(nodes)
    if is_missing and all(
        cookie.cookie is not None and cookie.cookie.instance_id is None for cookie in stored_cookies
    ):
        return STORE_TOPIC.ok("instance id", "the cluster never had an instance id, and no cookie has one")
    problem_text = "the cluster has no instance id" if is_missing else "the instance id could not be read"
    return STORE_TOPIC.warn(
        "instance id",
        f"{problem_text}: disks of another cluster cannot be distinguished from this one's",
        "bkaudit explain check instance-id-missing",
    )


def _clock_line(store: MetadataStore, nodes: ClusterNodes) -> AnswerLine:
    current_ms = now_ms()
    if not store.live:
        text = f"saved metadata; ages are relative to its scan time, {age(nodes.scan_time, current_ms)}"
        if nodes.scan_time - current_ms > MIN_REPORTED_SKEW_MS:
            remedy_text = "set this machine's clock by NTP, or pass --scan-time"
            return STORE_TOPIC.warn("clock", text, remedy_text)
        return STORE_TOPIC.ok("clock", text)
    if not store.keeps_times:
        return STORE_TOPIC.not_asked(
            "clock", "etcd keeps no times; ages are relative to this machine's clock"
        )
    clock_lead_ms = (
        max((max(node.ctime, node.mtime) for node in nodes.nodes.values()), default=0) - current_ms
    )
    if clock_lead_ms > MIN_REPORTED_SKEW_MS:
        return STORE_TOPIC.warn(
            "clock",
            f"the store has a time that is {duration(clock_lead_ms / 1000)} ahead of this machine's clock",
            "set this machine's clock by NTP: ages and --grace are relative to it",
        )
    return STORE_TOPIC.ok("clock", "no time in the store is ahead of this machine's clock")


def _latency_line(store: MetadataStore) -> AnswerLine:
    assert isinstance(store, OnePathStore)
    part = store.part_of_path(f"{store.root}/{'LAYOUT' if store.keeps_marks else 'layout'}")
    read_times_ms = []
    for _ in range(LATENCY_READS):
        start_time = time.monotonic()
        for _batch in store.read(part):
            pass
        read_times_ms.append((time.monotonic() - start_time) * 1000)
    return STORE_TOPIC.ok("latency", f"one read takes {statistics.median(read_times_ms):.1f} ms")


def _cost_lines(ledgers: int, is_exact: bool, options: AuditOptions) -> Iterator[AnswerLine]:
    text = f"{'' if is_exact else 'about '}{plural(ledgers, 'ledger')}"
    if options.rate_limit:
        scan_text = duration(SCANS_PER_AUDIT * ledgers / options.rate_limit)
        text += f": the two scans take {scan_text} or longer at {options.rate_limit:,.0f} reads per second"
    yield STORE_TOPIC.ok("ledgers", text)
    limits_text = f"up to {options.in_flight} unanswered requests of {options.batch} reads on each connection"
    if options.rate_limit:
        rate_text = f"{options.rate_limit:,.0f} reads per second over all tasks"
        yield STORE_TOPIC.ok("rates", f"{rate_text}, {limits_text}")
    else:
        yield STORE_TOPIC.warn(
            "rates",
            f"no limit on reads per second, {limits_text}",
            "pass --rate-limit for a store in production",
        )
