"""Check of registrations: which bookies are down, that is, have a cookie in the store but no registration."""

from collections.abc import Collection, Iterator

from auditor.model.amounts import and_more, plural
from auditor.reports.doctor import BOOKIES, Line
from auditor.sources.metadata.store import ClusterNodes
from auditor.tables.registry import registrations, store_cookies

MAX_BOOKIES_NAMED = 20
"""Largest number of missing bookies to name. All bookies that are down are counted."""

REMEDY_IF_READ = "an audit reports whether the bookie would start, and whether a start is allowed"
REMEDY_IF_UNREAD = f"pass all its directories with --bookies: {REMEDY_IF_READ}"

_REGISTRATION_PARENTS = ("available", "bookies")
"""Names below the root with registrations: in ZooKeeper, and in etcd with BookKeeper's own driver."""


def registration_lines(
    root: str, nodes: ClusterNodes, complete_bookies: Collection[str] = ()
) -> Iterator[Line]:
    """Yield a line with the number of registered bookies, and one for each unregistered bookie.

    The lines never suggest to start a bookie. Only an audit can tell whether a start would work and is
    allowed.

    Args:
        root: The cluster's root path, or its scope in etcd.
        nodes: The store's records of the cluster itself.
        complete_bookies: Ids of the bookies with all their directories given.
    """
    bookie_ids = {cookie.bookie_id for cookie in store_cookies(nodes)}
    registered = {str(row["bookie_id"]) for row in registrations(nodes)}
    bookie_ids |= registered
    if not bookie_ids:
        yield BOOKIES.not_asked("registered", "the store has neither cookies nor registrations")
        return
    if any(_is_registration(path, root) for path, _ in nodes.gaps):
        text = "registrations could not be read completely: which bookies are down is not known"
        yield BOOKIES.not_asked("registered", text)
        return
    if not registered:
        text = (
            f"none of {plural(len(bookie_ids), 'bookie')} is registered: all are down, or the store was "
            "saved without registrations"
        )
        yield BOOKIES.not_asked("registered", text)
        return
    down_ids = sorted(bookie_ids - registered)
    total = len(bookie_ids)
    text = f"{total - len(down_ids):,} of {plural(total, 'known bookie')} {_verb(total)} registered"
    yield BOOKIES.warn("registered", text) if down_ids else BOOKIES.ok("registered", text)
    for name in down_ids[:MAX_BOOKIES_NAMED]:
        yield BOOKIES.warn(
            "down",
            f"{name}: not registered (down or never started); copies on it can be checked only from its "
            "directories",
            REMEDY_IF_READ if name in complete_bookies else REMEDY_IF_UNREAD,
        )
    for detail in and_more(len(down_ids) - MAX_BOOKIES_NAMED):
        yield BOOKIES.warn("down", detail)


def _verb(number: int) -> str:
    return "is" if number == 1 else "are"


def _is_registration(path: str, root: str) -> bool:
    """Return whether a path that could not be read may hold registrations."""
    return path == root or path.removeprefix(f"{root}/").partition("/")[0] in _REGISTRATION_PARENTS
