"""Ids that may belong to the same bookie, inferred from metadata without DNS.

A bookie can have many ids: ip:port, name:port, short:port, the advertised address, and a custom id. If its
configuration changes the id, the cluster treats it as a different bookie. Its ledgers then name an id under
which no bookie is registered, and there is no cookie for the new id. Garbage collection of over-replicated
ledgers may delete data that the bookie still serves.

No address proves that two ids belong to the same bookie. A host may be set up again under its old name. An IP
may be given to a different machine. All hosts of a cluster may have the same directories. Only the ledgers on
a disk prove that two ids are one bookie (`auditor.model.alias_evidence`). A rule therefore either joins two
ids or gives a hint. A hint joins them only if a second rule agrees. In this table, A and B are the two ids,
in any order:

    rule               condition                                                        strength
    -----------------  ---------------------------------------------------------------  --------
    same-address       A and B are host:port. They are equal except for letter case or  joins
                       a dot at the end of the host.
    endpoint-is-id     A is registered at the address B, and B is not registered.       joins
    same-endpoint      A and B are registered at the same address, and no third bookie  joins
                       is registered there.
    name-and-ip        A is name:port and B is ip:port. A registration has this name    joins
                       and this IP, and no registration has only one of them.
    short-name         The host of A consists of the first labels of the host of B,     hint
                       and of no other host. (If bk1 exists in two data centres, it
                       matches neither.)
    cookie-names       The store's cookie of A contains the id B. The cause is an       hint
                       unfinished renaming, or a cookie written under the wrong id.
    disks-name         Every VERSION in the directories of A contains the id B, and no  hint
                       other VERSION does. The cause is a renaming, or a directory
                       with the wrong name.
    same-directories   The cookies of A and B contain the same directories, and hardly  hint
                       any other cookie contains them. (This proves nothing in a
                       cluster of equal hosts.)
    same-ledgers       A is registered, and its disks have most of the entries that B   joins
                       should have. B is neither registered nor found on a disk.

If both ids have a cookie and the cookies have different directories, a joining rule on addresses gives only a
hint. A renamed bookie keeps its disks, so the address was probably given to a different bookie.

No rule joins two ids if the ledgers contradict it. They do so if the disks of A have no ledger of B, or if
most ledgers of B name both ids in the same ensemble. Two registered ids with different addresses never belong
to the same bookie, because both bookies are alive. An equal port alone is no evidence. Names such as
localhost, which every machine uses for itself, do not count as addresses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from auditor.model.alias_evidence import (
    AliasClaims,
    BookieFacts,
    ContentComparison,
    Edge,
    Rule,
    claims_by_addresses,
    comparable_address,
)
from auditor.model.cookie import Cookie


def find_components(edges: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Return the connected components of the graph with these edges.

    The nodes of a component are in ascending order. The components are sorted by their first node. A node
    without an edge is in no component. The result does not depend on the order of the edges, or of the two
    nodes of an edge.

    >>> find_components([("c", "b"), ("x", "y"), ("a", "b")])
    (('a', 'b', 'c'), ('x', 'y'))
    """
    parents: dict[str, str] = {}

    def root_of(node: str) -> str:
        parents.setdefault(node, node)
        while parents[node] != node:
            parents[node] = parents[parents[node]]  # path halving: long chains would cost quadratic time
            node = parents[node]
        return node

    for first_node, second_node in edges:
        first_root, second_root = sorted((root_of(first_node), root_of(second_node)))
        parents[second_root] = first_root
    nodes_by_root: dict[str, list[str]] = {}
    for node in sorted(parents):
        nodes_by_root.setdefault(root_of(node), []).append(node)
    return tuple(tuple(nodes) for _, nodes in sorted(nodes_by_root.items()))


_ID_JOINING_ADDRESS_RULES = frozenset(
    {Rule.SAME_ADDRESS, Rule.ENDPOINT_IS_ID, Rule.SAME_ENDPOINT, Rule.NAME_AND_IP}
)
_ADDRESS_RULES = _ID_JOINING_ADDRESS_RULES | {Rule.SHORT_NAME}
_ID_JOINING_RULES = _ID_JOINING_ADDRESS_RULES | {Rule.SAME_LEDGERS}
_MIN_LAYOUTS_PER_PAIR = 3
_NO_LEDGERS_COMPARED = ContentComparison()


def alias_edges(
    facts_by_id: Mapping[str, BookieFacts], ledgers: ContentComparison = _NO_LEDGERS_COMPARED
) -> tuple[Edge, ...]:
    """Return the pairs of ids that may belong to the same bookie.

    There is one edge for each pair and each rule that the pair matches. Edges are in ascending order. The
    time and the number of edges grow with the number of ids, and with the number of pairs that share
    ledgers. They do not grow with the square of the number of ids.

    >>> ids = {"bk-7": BookieFacts(True, ("10.0.0.7", 3181)), "10.0.0.7:3181": BookieFacts()}
    >>> [(edge.one, edge.other, edge.rule.value) for edge in alias_edges(ids)]
    [('10.0.0.7:3181', 'bk-7', 'endpoint-is-id')]

    Args:
        facts_by_id: facts about all ids in the cluster's ensembles, cookies, registrations and
            under-replication
            marks, and on disks.
        ledgers: comparison of the ledgers of these ids with the disks of bookies.
    """
    evidence_by_pair: dict[tuple[str, str, Rule], str] = {}
    for bookie_id, alias_id, rule, evidence in (
        *claims_by_addresses(facts_by_id),
        *_pair_by_cookie(facts_by_id),
        *_pair_by_disks(facts_by_id),
        *_pair_by_directories(facts_by_id),
        *ledgers.claims_by_ledgers(),
    ):
        first_id, second_id = sorted((bookie_id, alias_id))
        if not _are_both_registered(facts_by_id[first_id], facts_by_id[second_id]):
            evidence_by_pair[first_id, second_id, rule] = min(
                evidence, evidence_by_pair.get((first_id, second_id, rule), evidence)
            )
    return tuple(
        _make_edge(
            first_id, second_id, rule, evidence, facts_by_id, ledgers.evidence_against(first_id, second_id)
        )
        for (first_id, second_id, rule), evidence in sorted(evidence_by_pair.items())
    )


def _make_edge(
    first_id: str,
    second_id: str,
    rule: Rule,
    evidence: str,
    facts_by_id: Mapping[str, BookieFacts],
    ledger_counter_evidence: str | None,
) -> Edge:
    counter_evidence = ledger_counter_evidence
    if (
        counter_evidence is None
        and rule in _ADDRESS_RULES
        and _have_unequal_directories(first_id, second_id, facts_by_id)
    ):
        counter_evidence = "the directories in their cookies differ"
    joins_ids = rule in _ID_JOINING_RULES and counter_evidence is None
    return Edge(
        first_id, second_id, rule, joins_ids, evidence, counter_evidence, ledger_counter_evidence is not None
    )


def group_aliases(edges: Collection[Edge]) -> tuple[tuple[str, ...], ...]:
    """Return groups of ids. All ids of a group belong to the same bookie.

    An id without an alias is in no group. One edge that joins is enough to put two ids into the same group.
    Two hints from different rules are also enough, with two exceptions. All hints from rules on addresses
    count as one, because they often repeat the same fact. Hints do not count if the ledgers show two
    different bookies (``apart``).

    >>> rules = (Rule.SHORT_NAME, Rule.COOKIE_NAMES)
    >>> group_aliases([Edge("a", "b", rule, False, "") for rule in rules])
    (('a', 'b'),)
    """
    rules_by_pair: dict[tuple[str, str], set[Rule | None]] = defaultdict(set)
    for edge in edges:
        if not edge.apart:
            rules_by_pair[edge.one, edge.other].add(None if edge.rule in _ADDRESS_RULES else edge.rule)
    edge_pairs = {(edge.one, edge.other) for edge in edges if edge.joins}
    return find_components(
        edge_pairs | {pair for pair, pair_rules in rules_by_pair.items() if len(pair_rules) > 1}
    )


def find_identities(facts_by_id: Mapping[str, BookieFacts], edges: Collection[Edge]) -> dict[str, str]:
    """Return the identity of every id: the first id of its group, or the id itself if it is in no group.

    If two ids of a group belong to different live bookies, the group is wrong. Each of its ids is then its
    own identity.

    >>> absent = BookieFacts()
    >>> ids = {"bk-7": BookieFacts(True, ("10.0.0.7", 3181)), "10.0.0.7:3181": absent, "bk-8": absent}
    >>> find_identities(ids, alias_edges(ids))
    {'bk-7': '10.0.0.7:3181', '10.0.0.7:3181': '10.0.0.7:3181', 'bk-8': 'bk-8'}
    """
    identity_of = {id: id for id in facts_by_id}
    for alias_group in group_aliases(edges):
        registered_facts = [facts_by_id[id] for id in alias_group if facts_by_id[id].registered]
        if not any(
            _are_both_registered(registered_facts[0], other_facts) for other_facts in registered_facts[1:]
        ):
            identity_of.update(dict.fromkeys(alias_group, alias_group[0]))
    return identity_of


def _own_cookie(id: str, facts: BookieFacts) -> Cookie | None:
    """Return the store's cookie of an id.

    Returns None if there is no cookie, or if the cookie contains a different id by mistake.
    """
    return facts.cookie if facts.cookie is not None and facts.cookie.bookie_id == id else None


def _directory_layout(cookie: Cookie) -> tuple[str, ...]:
    index_dirs = cookie.index_dirs or cookie.ledger_dirs
    return (cookie.journal_dirs, "", *cookie.ledger_dirs, "", *index_dirs, "", cookie.instance_id or "")


def _have_unequal_directories(first_id: str, second_id: str, facts_by_id: Mapping[str, BookieFacts]) -> bool:
    first_cookie, second_cookie = (
        _own_cookie(first_id, facts_by_id[first_id]),
        _own_cookie(second_id, facts_by_id[second_id]),
    )
    if first_cookie is None or second_cookie is None:
        return False
    return _directory_layout(first_cookie) != _directory_layout(second_cookie)


def _are_both_registered(facts: BookieFacts, other_facts: BookieFacts) -> bool:
    if not (facts.registered and other_facts.registered):
        return False
    address, other_address = comparable_address(facts.address), comparable_address(other_facts.address)
    return address is None or address != other_address


def _pair_by_cookie(facts_by_id: Mapping[str, BookieFacts]) -> AliasClaims:
    for id, facts in facts_by_id.items():
        if (
            facts.cookie is not None
            and facts.cookie.bookie_id != id
            and facts.cookie.bookie_id in facts_by_id
        ):
            cookie_id = facts.cookie.bookie_id
            yield id, cookie_id, Rule.COOKIE_NAMES, f"the store's cookie of {id} contains the id {cookie_id}"


def _pair_by_disks(facts_by_id: Mapping[str, BookieFacts]) -> AliasClaims:
    ids_by_version_id: dict[str, list[str]] = defaultdict(list)
    for id, facts in facts_by_id.items():
        for version_id in set(facts.disk_ids):
            ids_by_version_id[version_id].append(id)
    for version_id, ids_with_version_id in ids_by_version_id.items():
        id = ids_with_version_id[0]
        if len(ids_with_version_id) > 1 or id == version_id or version_id not in facts_by_id:
            continue
        if set(facts_by_id[id].disk_ids) == {version_id} and not facts_by_id[version_id].disk_ids:
            yield (
                id,
                version_id,
                Rule.DISKS_NAME,
                f"every VERSION file at the path of {id} contains the id {version_id}",
            )


def _pair_by_directories(facts_by_id: Mapping[str, BookieFacts]) -> AliasClaims:
    ids_by_layout: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for id, facts in facts_by_id.items():
        cookie = _own_cookie(id, facts)
        if cookie is not None and cookie.instance_id is not None:
            ids_by_layout[_directory_layout(cookie)].append(id)
    shared_layouts = [layout_ids for layout_ids in ids_by_layout.values() if len(layout_ids) > 1]
    # Equal directories are evidence only if most bookies of the cluster have directories of their own.
    if any(len(layout_ids) > 2 for layout_ids in shared_layouts) or len(
        shared_layouts
    ) * _MIN_LAYOUTS_PER_PAIR > len(ids_by_layout):
        return
    evidence = "their cookies contain the same directories, which is rare in this cluster"
    yield from (
        (first_id, second_id, Rule.SAME_DIRECTORIES, evidence) for first_id, second_id in shared_layouts
    )
