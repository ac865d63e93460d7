"""Ids that may belong to one bookie, inferred from metadata without DNS.

A bookie can have many ids: ip:port, name:port, short:port, the advertised address, and a custom id. If its
configuration changes the id, the cluster takes it for another bookie. Its ledgers then name an id that no
bookie is registered under, and the cookie of the new id is not found. Garbage collection of over-replicated
ledgers may delete data that the bookie still serves.

No address proves that two ids belong to one bookie. A host may be set up anew under its old name, an IP may
pass to another machine, and all hosts of a cluster may have the same directories. Only the ledgers on a disk
prove it (`auditor.model.alias_evidence`). A rule therefore either joins two ids, or is a hint. A hint joins
them only if a second rule agrees. In this table, A and B are the two ids, in any order:

    rule               condition                                                        strength
    -----------------  ---------------------------------------------------------------  --------
    same-address       A and B are host:port, and equal but for letter case or a dot    joins
                       at the end of the host
    endpoint-is-id     A is registered at the address B, and B is not registered        joins
    same-endpoint      A and B, and no third bookie, are registered at one address      joins
    name-and-ip        A is name:port, B is ip:port, and a registration has this name   joins
                       and this IP; no registration has only one of them
    short-name         the host of A is the first labels of the host of B, and of no    hint
                       other host (bk1 in two data centres matches neither)
    cookie-names       the store's cookie of A carries the id B: an unfinished          hint
                       renaming, or a cookie written under the wrong id
    disks-name         every VERSION in the directories of A carries the id B, and no   hint
                       other VERSION does: a renaming, or a wrongly named directory
    same-directories   the cookies of A and B name the same directories, and those of   hint
                       hardly any other bookie do (no proof in a cluster of equal
                       hosts)
    same-ledgers       A is registered, and its disks hold most of the entries that B   joins
                       should hold; B is neither registered nor found on a disk

A joining address is only a hint if both ids have a cookie and the directories in these cookies differ. A
renamed bookie keeps its disks, so the address was probably given to another bookie.

No rule joins two ids if the ledgers contradict it. The ledgers do so if the disks of A have no ledger of B,
or if most ensembles contain both ids. Two ids that are both registered, each at its own address, never belong
to one bookie, because both bookies are alive. An equal port alone is no evidence. Names such as localhost,
which every machine uses for itself, do not count as addresses.
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


def components(edges: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Return the connected components of the graph with these edges.

    The nodes of a component ascend, and components are sorted by their first node. A node without an edge is
    in no component. The order of the edges, and of the two nodes of an edge, does not matter.

    >>> components([("c", "b"), ("x", "y"), ("a", "b")])
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
    members: dict[str, list[str]] = {}
    for node in sorted(parents):
        members.setdefault(root_of(node), []).append(node)
    return tuple(tuple(nodes) for _, nodes in sorted(members.items()))


_JOINING_ADDRESSES = frozenset({Rule.SAME_ADDRESS, Rule.ENDPOINT_IS_ID, Rule.SAME_ENDPOINT, Rule.NAME_AND_IP})
_ADDRESS_RULES = _JOINING_ADDRESSES | {Rule.SHORT_NAME}
_JOINING_RULES = _JOINING_ADDRESSES | {Rule.SAME_LEDGERS}
_LAYOUTS_PER_PAIR = 3
_NO_COMPARISON = ContentComparison()


def alias_edges(
    ids: Mapping[str, BookieFacts], ledgers: ContentComparison = _NO_COMPARISON
) -> tuple[Edge, ...]:
    """Return the pairs of ids that may belong to one bookie, ascending; one edge for each pair and rule.

    The time and the number of edges grow with the number of ids, and with the number of pairs that share
    ledgers. They do not grow with the square of the number of ids.

    >>> ids = {"bk-7": BookieFacts(True, ("10.0.0.7", 3181)), "10.0.0.7:3181": BookieFacts()}
    >>> [(edge.one, edge.other, edge.rule.value) for edge in alias_edges(ids)]
    [('10.0.0.7:3181', 'bk-7', 'endpoint-is-id')]

    Args:
        ids: all ids in the cluster's ensembles, cookies, registrations and under-replication marks, and on
            disks.
        ledgers: the comparison of the ledgers of these ids.
    """
    evidence_by_pair: dict[tuple[str, str, Rule], str] = {}
    for claimed_id, alias_id, rule, evidence in (
        *claims_by_addresses(ids),
        *_pair_by_cookie(ids),
        *_pair_by_disks(ids),
        *_pair_by_directories(ids),
        *ledgers.claims_by_ledgers(),
    ):
        first_id, second_id = sorted((claimed_id, alias_id))
        if not _are_both_registered(ids[first_id], ids[second_id]):
            evidence_by_pair[first_id, second_id, rule] = min(
                evidence, evidence_by_pair.get((first_id, second_id, rule), evidence)
            )
    return tuple(
        _make_edge(first_id, second_id, rule, evidence, ids, ledgers.objection(first_id, second_id))
        for (first_id, second_id, rule), evidence in sorted(evidence_by_pair.items())
    )


def _make_edge(
    first_id: str,
    second_id: str,
    rule: Rule,
    evidence: str,
    ids: Mapping[str, BookieFacts],
    objection: str | None,
) -> Edge:
    counter_evidence = objection
    if (
        counter_evidence is None
        and rule in _ADDRESS_RULES
        and _have_unequal_directories(first_id, second_id, ids)
    ):
        counter_evidence = "the directories in their cookies differ"
    joins = rule in _JOINING_RULES and counter_evidence is None
    return Edge(first_id, second_id, rule, joins, evidence, counter_evidence, objection is not None)


def aliases(edges: Collection[Edge]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of ids that belong to one bookie each; an id without an alias is in no group.

    One edge that joins is enough for a pair of ids. Two hints of different rules are enough too, unless both
    are rules on addresses, which often repeat one fact.

    >>> aliases([Edge("a", "b", Rule.SHORT_NAME, False, ""), Edge("a", "b", Rule.COOKIE_NAMES, False, "")])
    (('a', 'b'),)
    """
    rules_by_pair: dict[tuple[str, str], set[Rule | None]] = defaultdict(set)
    for edge in edges:
        if not edge.apart:
            rules_by_pair[edge.one, edge.other].add(None if edge.rule in _ADDRESS_RULES else edge.rule)
    edge_pairs = {(edge.one, edge.other) for edge in edges if edge.joins}
    return components(
        edge_pairs | {pair for pair, pair_rules in rules_by_pair.items() if len(pair_rules) > 1}
    )


def identities(ids: Mapping[str, BookieFacts], edges: Collection[Edge]) -> dict[str, str]:
    """Return the identity of every id: the first id of its group; an id in no group is its own identity.

    If two bookies of a group are both alive, the group is wrong, and each of its ids keeps its own identity.

    >>> absent = BookieFacts()
    >>> ids = {"bk-7": BookieFacts(True, ("10.0.0.7", 3181)), "10.0.0.7:3181": absent, "bk-8": absent}
    >>> identities(ids, alias_edges(ids))
    {'bk-7': '10.0.0.7:3181', '10.0.0.7:3181': '10.0.0.7:3181', 'bk-8': 'bk-8'}
    """
    identity_of = {id: id for id in ids}
    for group in aliases(edges):
        registered_facts = [ids[id] for id in group if ids[id].registered]
        if not any(_are_both_registered(registered_facts[0], member) for member in registered_facts[1:]):
            identity_of.update(dict.fromkeys(group, group[0]))
    return identity_of


def _own_cookie(id: str, facts: BookieFacts) -> Cookie | None:
    """Return the store's cookie of an id; None if there is none, or if it carries another id by mistake."""
    return facts.cookie if facts.cookie is not None and facts.cookie.bookie_id == id else None


def _directory_layout(cookie: Cookie) -> tuple[str, ...]:
    index_dirs = cookie.index_dirs or cookie.ledger_dirs
    return (cookie.journal_dirs, "", *cookie.ledger_dirs, "", *index_dirs, "", cookie.instance_id or "")


def _have_unequal_directories(first_id: str, second_id: str, ids: Mapping[str, BookieFacts]) -> bool:
    first_cookie, second_cookie = _own_cookie(first_id, ids[first_id]), _own_cookie(second_id, ids[second_id])
    if first_cookie is None or second_cookie is None:
        return False
    return _directory_layout(first_cookie) != _directory_layout(second_cookie)


def _are_both_registered(facts: BookieFacts, other_facts: BookieFacts) -> bool:
    if not (facts.registered and other_facts.registered):
        return False
    address, other_address = comparable_address(facts.address), comparable_address(other_facts.address)
    return address is None or address != other_address


def _pair_by_cookie(ids: Mapping[str, BookieFacts]) -> AliasClaims:
    for id, facts in ids.items():
        if facts.cookie is not None and facts.cookie.bookie_id != id and facts.cookie.bookie_id in ids:
            cookie_id = facts.cookie.bookie_id
            yield id, cookie_id, Rule.COOKIE_NAMES, f"the store's cookie of {id} carries the id {cookie_id}"


def _pair_by_disks(ids: Mapping[str, BookieFacts]) -> AliasClaims:
    ids_by_disk: dict[str, list[str]] = defaultdict(list)
    for id, facts in ids.items():
        for name in set(facts.disk_ids):
            ids_by_disk[name].append(id)
    for name, ids_of_disk in ids_by_disk.items():
        id = ids_of_disk[0]
        if len(ids_of_disk) > 1 or id == name or name not in ids:
            continue
        if set(ids[id].disk_ids) == {name} and not ids[name].disk_ids:
            yield id, name, Rule.DISKS_NAME, f"every VERSION at the path of {id} has the id {name}"


def _pair_by_directories(ids: Mapping[str, BookieFacts]) -> AliasClaims:
    ids_by_layout: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for id, facts in ids.items():
        cookie = _own_cookie(id, facts)
        if cookie is not None and cookie.instance_id is not None:
            ids_by_layout[_directory_layout(cookie)].append(id)
    shared_layouts = [layout_ids for layout_ids in ids_by_layout.values() if len(layout_ids) > 1]
    # Equal directories are evidence only if most bookies of the cluster have directories of their own.
    if any(len(layout_ids) > 2 for layout_ids in shared_layouts) or len(
        shared_layouts
    ) * _LAYOUTS_PER_PAIR > len(ids_by_layout):
        return
    evidence = "their cookies contain the same directories, which hardly any other cookie contains"
    yield from (
        (first_id, second_id, Rule.SAME_DIRECTORIES, evidence) for first_id, second_id in shared_layouts
    )
