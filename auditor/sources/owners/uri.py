"""Where owners are kept: an application, and the store that has its znodes.

pulsar:zk://h1:2181,h2:2181            Pulsar's znodes at the top of a running ZooKeeper
pulsar:zk://h1:2181/chroot             below a chroot
pulsar:zk-snapshot:///dir/version-2    a server's own files; ?root=/chroot
pulsar:dump:///dir/metadata.jsonl      a dump of ZooKeeper or etcd; ?root=/chroot
pulsar:etcd://h1:2379                  a running etcd whose keys are paths, as Pulsar has them
pulsar:etcd-snapshot:///dir/file.db    the same, saved; ?root=/chroot
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

from auditor.errors import UsageError
from auditor.sources.metadata.uri import (
    METADATA_STORE,
    SAVED,
    MetadataUri,
    parse_metadata_uri,
    redact,
    require_utf8,
)
from auditor.sources.owners.applications import APPLICATIONS


@dataclass(frozen=True, slots=True)
class OwnersUri:
    """Where an application keeps its references; ``chroot`` is the path above its trees, "" at the top.

    ``store`` is a metadata URI without its root.
    """

    application: str
    store: str
    chroot: str

    @property
    def text(self) -> str:
        """The URI as ``--owners`` takes it."""
        if not self.chroot:
            return f"{self.application}:{self.store}"
        return f"{self.application}:{_with_root(self.store, self.chroot)}"

    def tree(self, name: str) -> str:
        """The metadata URI of one of the application's trees.

        >>> OwnersUri("pulsar", "zk://h1:2181", "/east").tree("schemas")
        'zk://h1:2181/east/schemas'
        >>> OwnersUri("pulsar", "dump:///a.jsonl", "").tree("schemas")
        'dump:///a.jsonl?root=/schemas'
        """
        return _with_root(self.store, f"{self.chroot}/{name}")


def parse_owners_uri(text: str) -> OwnersUri:
    """Take the value of ``--owners`` apart.

    >>> parse_owners_uri("pulsar:zk://h1:2181/")
    OwnersUri(application='pulsar', store='zk://h1:2181', chroot='')

    Raises:
        UsageError: an unknown application, or a URI that is invalid.
    """
    require_utf8(text)
    application, _, uri = text.partition(":")
    if application not in APPLICATIONS:
        raise UsageError(
            f"{redact(text)!r}: owners are named as APPLICATION:URI, such as pulsar:zk://host:2181; "
            f"known applications: {', '.join(APPLICATIONS)}"
        )
    scheme, _, rest = uri.partition("://")
    body, _, query = rest.partition("?")
    if scheme in SAVED:
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        chroot = parameters.pop("root", "/")
        if parameters:
            raise UsageError(
                f"{redact(text)!r}: unknown parameter {min(parameters)!r}; there is root=/chroot"
            )
        store = f"{scheme}://{body}"
    else:
        if query:
            raise UsageError(f"{redact(text)!r}: a live store takes no query; a chroot is the path")
        authority, _, path = body.partition("/")
        chroot, store = f"/{path}", f"{scheme}://{authority}"
    owners = OwnersUri(application, store, chroot.rstrip("/"))
    for tree in APPLICATIONS[application].trees:
        parse_metadata_uri(owners.tree(tree))
    return owners


def beside(application: str, metadata: MetadataUri) -> OwnersUri:
    """Where an application would keep its references in the metadata's own store, beside BookKeeper's root.

    >>> metadata = parse_metadata_uri("zk+hierarchical://h1:2181;h2/east/ledgers")
    >>> beside("pulsar", metadata).tree("schemas")
    'zk://h1:2181,h2:2181/east/schemas'
    """
    where = quote(metadata.path) if metadata.path else ",".join(metadata.hosts)
    scheme = metadata.scheme.removeprefix(METADATA_STORE)
    return OwnersUri(application, f"{scheme}://{where}", metadata.root.rpartition("/")[0])


def _with_root(store: str, root: str) -> str:
    scheme = store.partition("://")[0]
    return f"{store}?{SAVED[scheme]}={quote(root)}" if scheme in SAVED else f"{store}{root}"
