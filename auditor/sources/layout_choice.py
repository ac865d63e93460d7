"""Which layout a ledger tree has: the LAYOUT znode decides, and a URI may only agree."""

from __future__ import annotations

from auditor.codecs import layout
from auditor.errors import DecodeError, RuleError, StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.store import ClusterNodes
from auditor.sources.uri import parse_metadata_uri


def choose_layout(uri: str, cluster: ClusterNodes) -> tuple[LayoutKind, str]:
    """The layout, and a sentence for the report that says where it comes from.

    Raises:
        UsageError: the URI says another layout than the LAYOUT znode; the message names both.
        StoreError: the LAYOUT znode cannot be read or understood, so that no path means anything.
    """
    asked = parse_metadata_uri(uri).layout
    znode = cluster.nodes.get("LAYOUT")
    for path, reason in cluster.gaps:
        # Keys of etcd are in lower case. What may not be read is not absent: nothing can be assumed of it.
        if path.rpartition("/")[2].upper() == "LAYOUT":
            raise StoreError(f"--metadata {uri}: its layout at {path} cannot be read: {reason}")
    if znode is None:
        where = "taken from the URI" if asked else "hierarchical is assumed"
        return asked or LayoutKind.HIERARCHICAL, f"no LAYOUT znode: {where}"
    try:
        kind = layout.decode(znode.data).kind
    except (DecodeError, RuleError) as error:
        raise StoreError(f"--metadata {uri}: its LAYOUT znode cannot be understood: {error}") from error
    if asked is not None and asked is not kind:
        raise UsageError(f"--metadata {uri}: the URI says {asked.value}, the LAYOUT znode says {kind.value}")
    return kind, f"LAYOUT says {kind.value}"
