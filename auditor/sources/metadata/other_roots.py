"""Roots of the clusters in a saved store. A message names them if the requested root does not exist."""

from collections.abc import Iterable, Iterator
from urllib.parse import quote

from auditor.model.amounts import first_names

MAX_ROOTS = 20
"""Largest number of roots to look for; a message names the first `MAX_ROOTS_IN_MESSAGE`."""

MAX_ROOTS_IN_MESSAGE = 3

CLUSTER_MARKERS = ("layout", "instanceid")
"""Keys that every cluster has below its scope in etcd, with BookKeeper's own driver."""

PATH_MARKERS = ("LAYOUT", "INSTANCEID")
"""Names that every cluster has below its root in ZooKeeper, and in etcd with Pulsar's own driver."""


def roots_of(
    paths: Iterable[str], marker_names: tuple[str, ...] = CLUSTER_MARKERS + PATH_MARKERS
) -> list[str]:
    """Return the roots of clusters, in the order of ``paths``.

    A path whose last name is in ``marker_names`` shows that its parent is the root of a cluster.

    >>> roots_of(["/bk/one/layout", "/bk/one/instanceid", "/layout", "/x/layouts", "/two/INSTANCEID"])
    ['/bk/one', '/two']
    """
    roots: dict[str, None] = {}
    for path in paths:
        root, _, last_name = path.rpartition("/")
        if root and last_name in marker_names:
            roots[root] = None
            if len(roots) == MAX_ROOTS:
                break
    return [*roots]


def other_roots_sentence(store_uri: str, roots: Iterable[str], uri_parameter: str) -> str | None:
    """Return a clause that names the URIs of the given roots, or None if there are no roots.

    Args:
        store_uri: URI of the store, without a query.
        roots: roots of the clusters in the store.
        uri_parameter: query parameter that names the root in a URI.

    >>> other_roots_sentence("dump:///a.jsonl", ["/bk/one"], "scope")
    'a cluster is at dump:///a.jsonl?scope=/bk/one'
    """
    uris = list(_uris(store_uri, roots, uri_parameter))
    if not uris:
        return None
    subject = "a cluster is" if len(uris) == 1 else "clusters are"
    return f"{subject} at {first_names(uris, MAX_ROOTS_IN_MESSAGE)}"


def _uris(store_uri: str, roots: Iterable[str], uri_parameter: str) -> Iterator[str]:
    for root in roots:
        yield f"{store_uri}?{uri_parameter}={quote(root, safe='/:')}"
