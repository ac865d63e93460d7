"""Metadata URIs: BookKeeper's own forms, and the forms for saved metadata.

    zk://h1:2181,h2:2181/ledgers              the LAYOUT node names the layout; zk+null means the same
    zk+flat://h1:2181;h2:2181/ledgers         the suffix is a layout that LAYOUT must confirm
    zk-snapshot:///dir/version-2?root=/ledgers     a server's own snapshots and transaction logs
    etcd://h1:2379,h2:2379/scope              the path is the scope, in front of every key
    etcd-snapshot:///dir/file.db?scope=/scope      a file of ``etcdctl snapshot save``
    dump:///dir/metadata.jsonl?root=/ledgers       one JSON object per znode, or per key of etcd
    metadata-store:etcd://h1:2379,h2:2379/ledgers  ZooKeeper's paths as keys of etcd: Pulsar's own driver
    metadata-store:etcd-snapshot:///dir/file.db?root=/ledgers    a snapshot of such an etcd
    metadata-store:etcd:http://h1:2379, metadata-store:zk:h1:2181/chroot    as in bookie and broker settings
    metadata-store:oxia://h1:6648/bookkeeper       the path is the namespace; the root is always /ledgers

Hosts are separated by ``;`` (as in BookKeeper) or by ``,`` (as in ZooKeeper). The forms for running stores
are those of BookKeeper's ``metadataServiceUri`` (``ZKMetadataDriverBase``, ``EtcdMetadataDriverBase``). The
layout of old clusters, legacy hierarchical, has no suffix. Only the LAYOUT node shows this layout. etcd has
only one layout, and no suffix for it. As in BookKeeper, a scope is used exactly as it is written. So a
slash at the end of a scope is part of every key. URIs do not contain users and passwords, because logs and
reports repeat URIs. Users and passwords are in a credentials file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from auditor.errors import UsageError
from auditor.keys.ledger_tree import LayoutKind

DEFAULT_ROOT = "/ledgers"

URI_FORMS = (
    "zk://host:2181/ledgers, zk+hierarchical://h1:2181;h2:2181/ledgers (or zk+longhierarchical, "
    "zk+longlonghierarchical, zk+flat, zk+null), zk-snapshot:///path/to/version-2?root=/ledgers, "
    "etcd://h1:2379,h2:2379/scope, "
    "etcd-snapshot:///path/to/file.db?scope=/scope, dump:///path/to/metadata.jsonl?root=/ledgers, "
    "metadata-store:etcd://host:2379/ledgers, metadata-store:etcd-snapshot:///path/to/file.db?root=/ledgers, "
    "metadata-store:oxia://host:6648/namespace"
)

_LAYOUTS_BY_SCHEME = {
    "zk": None,
    "zk+null": None,
    "zk+flat": LayoutKind.FLAT,
    "zk+hierarchical": LayoutKind.HIERARCHICAL,
    "zk+longhierarchical": LayoutKind.LONG_HIERARCHICAL,
    "zk+longlonghierarchical": LayoutKind.LONG_HIERARCHICAL,  # BP-35
}
METADATA_STORE = "metadata-store:"
"""Prefix of metadata URIs of Pulsar's own drivers."""
ETCD_WITH_PATH_KEYS, SNAPSHOT_WITH_PATH_KEYS = f"{METADATA_STORE}etcd", f"{METADATA_STORE}etcd-snapshot"
OXIA = f"{METADATA_STORE}oxia"
OXIA_PORT = 6648
DEFAULT_NAMESPACE = "default"
"""Oxia namespace that is used if the URI names none, as in Pulsar's driver."""
_LIVE_SCHEMES = {
    "zk": (2181, "its root is the path, as in zk://host:2181/ledgers"),
    "etcd": (2379, "its scope is the path, as in etcd://host:2379/scope"),
    ETCD_WITH_PATH_KEYS: (2379, "its root is the path"),
}
"""Default port of each running store, and advice on how the URI names the store's root."""
SAVED_SCHEMES = {
    "zk-snapshot": "root",
    "dump": "root",
    "etcd-snapshot": "scope",
    SNAPSHOT_WITH_PATH_KEYS: "root",
}
"""Schemes of saved metadata, and the query parameter that names the root in each.

A dump may be of etcd, which has a scope. So the scheme ``dump`` also accepts ``scope``.
"""

_HOST_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:@\s/]+)(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class MetadataUri:
    """The components of a metadata URI.

    Attributes:
        scheme: key of `auditor.sources.metadata.stores.STORES`, without a layout suffix.
        hosts: ``host:port`` of each server; empty for saved metadata.
        path: file or directory of saved metadata; empty for a running store.
        root: absolute path or scope below which BookKeeper keeps everything.
        layout: layout that the suffix names, or the only layout of the store; None if the store decides.
        text: the URI as written.
        query: query parameters of saved metadata.
        namespace: namespace of Oxia; empty for other stores.
    """

    scheme: str
    hosts: tuple[str, ...]
    path: str
    root: str
    layout: LayoutKind | None
    text: str
    query: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""

    def __str__(self) -> str:
        """Return the URI as written, for messages."""
        return self.text


def parse_metadata_uri(uri: str | MetadataUri) -> MetadataUri:
    """Parse a metadata URI. A `MetadataUri` is returned unchanged.

    >>> parse_metadata_uri("zk+hierarchical://h1:2181;h2/ledgers").hosts
    ('h1:2181', 'h2:2181')
    >>> parse_metadata_uri("dump:///audit/metadata.jsonl").root
    '/ledgers'
    >>> parse_metadata_uri("etcd://h1,h2:2380/bk/cluster1").root
    '/bk/cluster1'

    Raises:
        UsageError: the URI is not UTF-8, contains a user, has an unknown scheme, suffix or query, or lacks
            hosts or a root. The message lists the known forms.
    """
    if isinstance(uri, MetadataUri):
        return uri
    require_utf8(uri)
    if uri.startswith(METADATA_STORE):
        return _parse_metadata_store(uri)
    scheme, separator, location = uri.partition("://")
    if not separator:
        raise UsageError(f"{redact(uri)!r} is not a metadata URI; known forms: {URI_FORMS}")
    location, _, query_text = location.partition("?")
    authority, slash, path = location.partition("/")
    path = slash + path
    query = dict(parse_qsl(query_text, keep_blank_values=True))
    _require_no_user(uri, authority)
    if scheme in _LAYOUTS_BY_SCHEME:
        return _parse_live(uri, "zk", authority, path, query, _LAYOUTS_BY_SCHEME[scheme])
    if scheme in SAVED_SCHEMES:
        return _parse_saved(uri, scheme, authority, unquote(path), query)
    if scheme == "etcd":
        return _parse_live(uri, scheme, authority, unquote(path), query, LayoutKind.ETCD)
    if scheme.startswith(("etcd+", "etcd-snapshot+")):
        raise UsageError(
            f"{redact(uri)!r}: etcd has one layout, so its scheme takes no suffix; known forms: {URI_FORMS}"
        )
    if scheme == "zk+ms":
        raise UsageError(
            f"{redact(uri)!r}: the metadata-store layout (+ms) keeps its ledgers in tables, not in znodes"
        )
    raise UsageError(f"{redact(uri)!r}: unknown scheme {redact(scheme)!r}; known forms: {URI_FORMS}")


def require_utf8(uri: str) -> None:
    """Raise `UsageError` if a URI contains bytes that are not UTF-8.

    Python represents such bytes as lone surrogates.
    """
    if re.search("[\ud800-\udfff]", uri):
        raise UsageError(f"{redact(uri)!r} is not UTF-8 text")


def redact(uri: str) -> str:
    """Return a URI in a form for messages.

    Asterisks replace the text before an @, because this text could be a password.

    >>> redact("zk://me:secret@h1:2181/ledgers")
    'zk://***@h1:2181/ledgers'
    >>> redact("zk:me:secret@h1:2181/ledgers"), redact("dump:///a@b.jsonl")
    ('***@h1:2181/ledgers', 'dump:///a@b.jsonl')
    """
    user_part, at_sign, location = uri.rpartition("@")
    scheme, separator, user = user_part.partition("://")
    if not at_sign or user.startswith("/"):  # an @ in a path, not after a user
        return uri
    return f"{'' if '@' in scheme else scheme}{separator}***@{location}" if separator else f"***@{location}"


def _require_no_user(uri: str, authority: str) -> None:
    if "@" in authority:
        raise UsageError(
            f"{redact(uri)!r}: a URI takes no user and no password; write them into a credentials file, and "
            "pass it with --credentials"
        )


def _parse_metadata_store(uri: str) -> MetadataUri:
    """Parse a ``metadata-store:`` URI.

    The URI has either this program's form, or the form in the settings of bookies and brokers.
    """
    store_kind, _, location = uri.removeprefix(METADATA_STORE).partition(":")
    if store_kind == "zk":  # Pulsar's root below its chroot is always the same
        authority, _, chroot = location.removeprefix("//").partition("/")
        _require_no_user(uri, authority)
        root = chroot if chroot.rpartition("/")[2] == "ledgers" else f"{chroot}/ledgers".strip("/")
        return _parse_live(uri, "zk", authority, f"/{root}", {})
    if store_kind == "etcd":
        location, _, query = location.partition("?")
        if location.startswith("//"):
            authority, slash, path = location[2:].partition("/")
        else:
            authority, slash, path = re.sub("https?://", "", location), "", ""
        _require_no_user(uri, authority)
        return _parse_live(uri, ETCD_WITH_PATH_KEYS, authority, unquote(slash + path) or DEFAULT_ROOT, query)
    if store_kind == "etcd-snapshot" and location.startswith("//"):
        path, _, query = location[2:].partition("?")
        authority, slash, relative_path = path.partition("/")
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        return _parse_saved(
            uri, SNAPSHOT_WITH_PATH_KEYS, authority, unquote(slash + relative_path), parameters
        )
    if store_kind == "oxia":
        return _parse_oxia(uri, location)
    raise UsageError(f"{redact(uri)!r}: unknown metadata store {store_kind!r}; known forms: {URI_FORMS}")


def _parse_oxia(uri: str, location: str) -> MetadataUri:
    """Parse a URI of Oxia in the form of the bookies' settings.

    This program also accepts the query parameter ``root``. With this parameter, it reads the owners of
    ledgers (for example, the Pulsar topics that they belong to) below another root.
    """
    location, _, query = location.removeprefix("//").partition("?")
    authority, _, path = location.partition("/")
    _require_no_user(uri, authority)
    # The query may have client settings of Pulsar's driver, such as batchingMaxDelayMillis. They are ignored.
    root = _checked_root(uri, dict(parse_qsl(query, keep_blank_values=True)).get("root", DEFAULT_ROOT))
    hosts = tuple(_checked_host(uri, host, OXIA_PORT) for host in re.split("[;,]", authority))
    namespace = unquote(path.rstrip("/")) or DEFAULT_NAMESPACE
    if "/" in namespace:
        raise UsageError(
            f"{redact(uri)!r}: the path must be one name, the namespace of Oxia, as in "
            f"{OXIA}://host:{OXIA_PORT}/bookkeeper; BookKeeper's root is always {DEFAULT_ROOT} there"
        )
    return MetadataUri(OXIA, hosts, "", root, None, uri, namespace=namespace)


def _parse_live(
    uri: str,
    scheme: str,
    authority: str,
    path: str,
    query: str | dict[str, str],
    layout: LayoutKind | None = None,
) -> MetadataUri:
    port, root_hint = _LIVE_SCHEMES[scheme]
    if query:
        raise UsageError(f"{redact(uri)!r}: the URI of a running store takes no query; {root_hint}")
    hosts = tuple(_checked_host(uri, host, port) for host in re.split("[;,]", authority))
    root = _checked_etcd_scope(uri, path) if scheme == "etcd" else _checked_root(uri, path)
    return MetadataUri(scheme, hosts, "", root, layout, uri)


def _checked_host(uri: str, host_text: str, default_port: int) -> str:
    host_match = _HOST_PATTERN.fullmatch(host_text)
    if not host_match or (host_match[2] and not 0 < int(host_match[2]) < 65536):
        raise UsageError(f"{redact(uri)!r}: {host_text.rpartition('@')[2]!r} is not of the form HOST:PORT")
    return f"{host_match[1]}:{host_match[2] or default_port}"


def _parse_saved(uri: str, scheme: str, authority: str, path: str, query: dict[str, str]) -> MetadataUri:
    if authority or path in ("", "/"):
        raise UsageError(f"{redact(uri)!r}: saved metadata requires an absolute path, as in {scheme}:///path")
    parameter = SAVED_SCHEMES[scheme]
    parameters = (parameter, "scope") if scheme == "dump" else (parameter,)
    unknown_parameters = sorted(set(query) - {*parameters})
    if unknown_parameters:
        raise UsageError(
            f"{redact(uri)!r}: unknown parameter {unknown_parameters[0]!r}; pass only {parameter}=/ledgers"
        )
    if len(query) > 1:
        raise UsageError(f"{redact(uri)!r}: root and scope mean the same; pass one of them")
    root = next((query[name] for name in parameters if name in query), DEFAULT_ROOT)
    if scheme == "etcd-snapshot":
        return MetadataUri(scheme, (), path, _checked_etcd_scope(uri, root), LayoutKind.ETCD, uri, query)
    return MetadataUri(scheme, (), path, _checked_root(uri, root), None, uri, query)


def _checked_root(uri: str, root_text: str) -> str:
    root = root_text.rstrip("/")
    if not root.startswith("/") or any(part in ("", ".", "..") for part in root[1:].split("/")):
        raise UsageError(f"{redact(uri)!r}: the root must be an absolute znode path such as {DEFAULT_ROOT}")
    return root


def _checked_etcd_scope(uri: str, etcd_scope: str) -> str:
    if not etcd_scope.startswith("/") or not etcd_scope.strip("/"):
        raise UsageError(f"{redact(uri)!r}: the scope must be an absolute path such as {DEFAULT_ROOT}")
    return etcd_scope
