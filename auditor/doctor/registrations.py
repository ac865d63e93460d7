"""Check of registrations: which bookies are down, because the store has their cookie but no registration."""

from collections.abc import Collection, Iterator

from auditor.model.amounts import and_more, plural
from auditor.reports.doctor import BOOKIES_TOPIC, AnswerLine
from auditor.sources.metadata.store import ClusterNodes
from auditor.tables.registry import registrations, store_cookies

MAX_BOOKIES_NAMED = 20
"""Largest number of names of bookies that are down. All of these bookies are counted."""

REMEDY_IF_READ = "run an audit to see whether the bookie would start, and whether it may be started"
REMEDY_IF_UNREAD = f"pass all its directories with --bookies; then {REMEDY_IF_READ}"

_REGISTRATION_PARENTS = ("available", "bookies")
"""Names of the paths below the root that have registrations.

The first is the path in ZooKeeper, the second the path in etcd with BookKeeper's own driver.
"""


def registration_lines(
    root: str, nodes: ClusterNodes, complete_bookies: Collection[str] = ()
) -> Iterator[AnswerLine]:
    """Yield a line with the number of registered bookies, and one for each unregistered bookie.

    The lines never suggest starting a bookie. Only an audit can find out whether a start would work and is
    allowed.

    Args:
        root: The cluster's root path.
        nodes: The store's records about the cluster itself, without those about ledgers.
        complete_bookies: Ids of the bookies whose directories were all given with ``--bookies``.
    """
    bookie_ids = {cookie.bookie_id for cookie in store_cookies(nodes)}
    registered_ids = {str(row["bookie_id"]) for row in registrations(nodes)}
    bookie_ids |= registered_ids
    if not bookie_ids:
        yield BOOKIES_TOPIC.not_asked("registered", "the store has neither cookies nor registrations")
        return
    if any(_may_have_registrations(path, root) for path, _ in nodes.gaps):
        text = "registrations could not be read completely: it is unknown which bookies are down"
        yield BOOKIES_TOPIC.not_asked("registered", text)
        return
    if not registered_ids:
        text = (
            f"none of {plural(len(bookie_ids), 'bookie')} is registered: all are down, or the store was "
            "saved without registrations"
        )
        yield BOOKIES_TOPIC.not_asked("registered", text)
        return
    down_ids = sorted(bookie_ids - registered_ids)
    known_count = len(bookie_ids)
    counts_text = f"{known_count - len(down_ids):,} of {plural(known_count, 'known bookie')}"
    text = f"{counts_text} {_verb_form(known_count)} registered"
    yield BOOKIES_TOPIC.warn("registered", text) if down_ids else BOOKIES_TOPIC.ok("registered", text)
    for name in down_ids[:MAX_BOOKIES_NAMED]:
        yield BOOKIES_TOPIC.warn(
            "down",
            f"{name}: not registered (down or never started); copies on it can be checked only from its "
            "directories",
            REMEDY_IF_READ if name in complete_bookies else REMEDY_IF_UNREAD,
        )
    for detail in and_more(len(down_ids) - MAX_BOOKIES_NAMED):
        yield BOOKIES_TOPIC.warn("down", detail)


def _verb_form(bookie_count: int) -> str:
    return "is" if bookie_count == 1 else "are"


def _may_have_registrations(path: str, root: str) -> bool:
    """Return whether a path that could not be read may hold registrations."""
    return path == root or path.removeprefix(f"{root}/").partition("/")[0] in _REGISTRATION_PARENTS
