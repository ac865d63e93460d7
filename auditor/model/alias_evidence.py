"""Evidence that two ids belong to the same bookie: their addresses, and the ledgers on disks.

The functions compare addresses without DNS. `auditor.model.bookie_alias` lists the rules and their strengths.
The ledgers on disks are the strongest evidence, for and against. A bookie that was given a new id keeps its
disks. These disks contain, entry for entry, the ledgers whose metadata still contains the old id. A new
machine at the old address has none of these ledgers. Suppose an operator replaced the old id in the metadata
by the id of such a machine. Readers would then go to a bookie that never had the ledgers.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum

from auditor.model.bookie_id import legacy_address
from auditor.model.cookie import Cookie

HostPort = tuple[str, int]


class Rule(StrEnum):
    """Rule that gives a reason why two ids may belong to the same bookie."""

    SAME_ADDRESS = "same-address"
    ENDPOINT_IS_ID = "endpoint-is-id"
    SAME_ENDPOINT = "same-endpoint"
    NAME_AND_IP = "name-and-ip"
    SHORT_NAME = "short-name"
    COOKIE_NAMES = "cookie-names"
    DISKS_NAME = "disks-name"
    SAME_DIRECTORIES = "same-directories"
    SAME_LEDGERS = "same-ledgers"


@dataclass(frozen=True, slots=True)
class BookieFacts:
    """Facts about one bookie id.

    ``address`` is the bookie-rpc endpoint in the bookie's registration. If the registration has no data,
    the address is the id itself. It is None if the bookie is not ``registered``, or registered no bookie-rpc
    endpoint. ``hosts`` are the hosts of all endpoints. ``cookie`` is the store's cookie under this id.
    ``disk_ids`` are the ids in the VERSION files of the bookie's directories, one id for each file.
    """

    registered: bool = False
    address: HostPort | None = None
    hosts: tuple[str, ...] = ()
    cookie: Cookie | None = None
    disk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """Two ids that may belong to the same bookie according to one rule. ``one`` sorts before ``other``.

    ``joins`` is True if this rule alone joins the ids. If it is False, the edge is only a hint. ``against``
    is the evidence against the edge, or None. An edge with evidence against it is at most a hint. ``apart``
    is True if the ledgers show that the ids belong to different bookies. In that case, hints do not join the
    ids, however many there are.
    """

    one: str
    other: str
    rule: Rule
    joins: bool
    evidence: str
    against: str | None = None
    apart: bool = False


AliasClaims = Iterable[tuple[str, str, Rule, str]]
"""Pairs of ids that a rule joins: two ids, the rule, and the evidence in words."""


MAX_NAME_CHARACTERS = 253
"""Largest length of a DNS name, in characters."""

_IP = re.compile(r"[0-9.]+|.*:.*")
_SHARED_HOSTS = frozenset({"", "0.0.0.0", "127.0.0.1", "localhost", "localhost.localdomain", "::", "::1"})


def normalise_host(host: str) -> str:
    """Return a host name in the form in which it is compared: lower case, without a dot at the end.

    >>> normalise_host("BK1.dc1.Example.")
    'bk1.dc1.example'
    """
    return host.lower().removesuffix(".")


def is_ip(host: str) -> bool:
    """Return whether a host is an IP address, or looks like an IP address and cannot be a host name.

    >>> is_ip("10.0.0.1"), is_ip("bk1"), is_ip("1.bk")
    (True, False, False)
    """
    return _IP.fullmatch(host) is not None


def is_shared_host(host: str) -> bool:
    """Return whether every machine uses this host name for itself, such as localhost.

    >>> is_shared_host("localhost"), is_shared_host("127.0.103.1")
    (True, False)
    """
    return normalise_host(host) in _SHARED_HOSTS


def shorter_names(host: str) -> Iterator[str]:
    """Yield a host name without its last domains, the shortest result first. Yield nothing for an IP address.

    >>> list(shorter_names("bk1.dc1.example")), list(shorter_names("10.0.0.1"))
    (['bk1', 'bk1.dc1'], [])
    """
    if is_ip(host) or len(host) > MAX_NAME_CHARACTERS:
        return
    for position, character in enumerate(host):
        if character == "." and position:
            yield host[:position]


MIN_COMPARED_LEDGERS = 5
"""Smallest number of equal ledgers that count as evidence; fewer may come from a running replication."""


@dataclass(frozen=True, slots=True)
class PairContents:
    """Comparison of an absent id's ledgers with the disks of one live bookie.

    The absent id is neither registered nor found on any disk. All fields except ``is_fully_read`` are
    numbers of ledgers:

        expected_ledgers        judged ledgers with entries that the absent id should have
        shared_ledgers          expected ledgers that also name the live bookie in an ensemble
        same_ensemble_ledgers   shared ledgers that name both ids in the same ensemble
        held_ledgers            expected ledgers, without the shared ones, with an entry on the live bookie
        matching_ledgers        held ledgers of which the live bookie has exactly the entries that the
                                absent id should have

    ``is_fully_read`` is True if the live bookie's index was read completely.
    """

    expected_ledgers: int
    shared_ledgers: int = 0
    same_ensemble_ledgers: int = 0
    held_ledgers: int = 0
    matching_ledgers: int = 0
    is_fully_read: bool = False

    @property
    def has_most_ledgers(self) -> bool:
        """Return whether the live bookie has most of the ledgers that the absent id should have.

        A few ledgers are not enough. Example: the absent id is a bookie that once received the copies of a
        dead bookie, and is now gone. The dead bookie comes back as the live bookie. Its disks contain only
        some ledgers of the absent id.

        >>> PairContents(40, held_ledgers=39, matching_ledgers=39).has_most_ledgers
        True
        >>> PairContents(40, held_ledgers=12, matching_ledgers=12).has_most_ledgers
        False
        """
        return (
            self.matching_ledgers >= MIN_COMPARED_LEDGERS
            and 2 * self.matching_ledgers > self.expected_ledgers
        )

    @property
    def evidence_against(self) -> str | None:
        """Return the evidence that the two ids belong to different bookies, or None if there is none.

        >>> PairContents(expected_ledgers=40, is_fully_read=True).evidence_against
        "40 ledgers name the absent id and not the live one; the live bookie's disks have none of them"
        >>> PairContents(expected_ledgers=40, shared_ledgers=30, same_ensemble_ledgers=30).evidence_against
        '30 of 40 ledgers have both ids in the same ensemble'
        """
        unshared_count = self.expected_ledgers - self.shared_ledgers
        if self.is_fully_read and unshared_count and not self.held_ledgers:
            return (
                f"{unshared_count} ledgers name the absent id and not the live one; the live bookie's disks "
                "have none of them"
            )
        # A client only writes to running bookies, so both ran at one time.
        if 2 * self.same_ensemble_ledgers > self.expected_ledgers:
            shared_count = self.same_ensemble_ledgers
            return f"{shared_count} of {self.expected_ledgers} ledgers have both ids in the same ensemble"
        return None


@dataclass(frozen=True, slots=True)
class ContentComparison:
    """Comparison of the ledgers of all absent ids with the disks of all live bookies.

    An absent id is neither registered nor found on any disk. ``expected_ledgers`` maps each absent id to the
    number of ledgers that name it. Only ledgers that the run could judge count. ``contents_by_pair`` maps
    (absent id, live bookie) to their `PairContents`. It omits pairs that have no ledger in common.
    ``fully_read_bookies`` are the live bookies whose index was read completely.
    """

    expected_ledgers: Mapping[str, int] = field(default_factory=dict)
    contents_by_pair: Mapping[tuple[str, str], PairContents] = field(default_factory=dict)
    fully_read_bookies: Set[str] = frozenset()

    def claims_by_ledgers(self) -> AliasClaims:
        """Yield pairs of ids that are the same bookie according to the ledgers on disks.

        Each element has both ids, the rule, and the evidence.
        """
        for (absent_id, live_id), pair in self.contents_by_pair.items():
            if pair.has_most_ledgers:
                ledgers = (
                    f"{pair.matching_ledgers} of the {pair.expected_ledgers} ledgers that {absent_id} should "
                    "hold, entry for entry"
                )
                yield absent_id, live_id, Rule.SAME_LEDGERS, f"the disks of {live_id} hold {ledgers}"

    def evidence_against(self, first_id: str, second_id: str) -> str | None:
        """Return the evidence that two ids belong to different bookies, or None if there is none.

        The order of the two ids does not matter.

        >>> ContentComparison({"old": 40}, fully_read_bookies={"new"}).evidence_against("new", "old")
        "40 ledgers name the absent id and not the live one; the live bookie's disks have none of them"
        """
        for absent_id, live_id in ((first_id, second_id), (second_id, first_id)):
            if absent_id in self.expected_ledgers:
                empty_contents = PairContents(
                    self.expected_ledgers[absent_id], is_fully_read=live_id in self.fully_read_bookies
                )
                return self.contents_by_pair.get((absent_id, live_id), empty_contents).evidence_against
        return None


MAX_PORT = 65535


def comparable_address(address: HostPort | None) -> HostPort | None:
    """Return an address in a form that can be compared with other addresses.

    Returns None for a host such as localhost, which exists on every machine.

    >>> comparable_address(("BK1.", 3181)), comparable_address(("localhost", 3181))
    (('bk1', 3181), None)
    """
    if address is None or is_shared_host(address[0]):
        return None
    return normalise_host(address[0]), address[1]


def claims_by_addresses(ids: Mapping[str, BookieFacts]) -> AliasClaims:
    """Yield each pair of ids that match by a rule on addresses: both ids, the rule, and the evidence.

    Other evidence may contradict the match.
    """
    addresses = {id: address for id in ids if (address := comparable_address(_address_in_id(id))) is not None}
    yield from _pair_same_address(addresses)
    yield from _pair_by_endpoint(ids, addresses)
    yield from _pair_name_with_ip(ids, addresses)
    yield from _pair_short_name(ids, addresses)


def _address_in_id(id: str) -> HostPort | None:
    """Return the host and port in an id, or None if the id is not an address.

    ``dc1:1:bookie-7`` counts as a custom id here, although a server would parse host and port from it.
    """
    address = legacy_address(id) if id.count(":") == 1 else None
    return address if address is not None and 0 < address[1] <= MAX_PORT else None


def _pair_same_address(addresses: Mapping[str, HostPort]) -> AliasClaims:
    for (host, port), same_address_ids in _group_by_address(addresses).items():
        first_id, *other_ids = sorted(same_address_ids)
        for other_id in other_ids:
            yield first_id, other_id, Rule.SAME_ADDRESS, f"both ids stand for {host}:{port}"


def _group_by_address(addresses: Mapping[str, HostPort]) -> dict[HostPort, list[str]]:
    ids: dict[HostPort, list[str]] = defaultdict(list)
    for id, address in addresses.items():
        ids[address].append(id)
    return ids


def _pair_by_endpoint(ids: Mapping[str, BookieFacts], addresses: Mapping[str, HostPort]) -> AliasClaims:
    answering_addresses = {
        id: address
        for id, facts in ids.items()
        if facts.registered and (address := comparable_address(facts.address)) is not None
    }
    ids_by_address = _group_by_address(addresses)
    for (host, port), answering_ids in _group_by_address(answering_addresses).items():
        # More than two ids at one address share a proxy, or a copied configuration.
        if len(answering_ids) == 2:
            yield (
                answering_ids[0],
                answering_ids[1],
                Rule.SAME_ENDPOINT,
                f"both ids are registered at {host}:{port}",
            )
        elif len(answering_ids) == 1:
            for id in ids_by_address.get((host, port), ()):
                if not ids[id].registered:
                    yield (
                        id,
                        answering_ids[0],
                        Rule.ENDPOINT_IS_ID,
                        f"{answering_ids[0]} is registered at {host}:{port}",
                    )


def _pair_name_with_ip(ids: Mapping[str, BookieFacts], addresses: Mapping[str, HostPort]) -> AliasClaims:
    ips: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    id_by_name_and_ip: dict[tuple[str, str], str] = {}
    for id, facts in ids.items():
        if not facts.registered:
            continue
        own_hosts = [addresses[id][0]] if id in addresses else []
        hosts = {normalise_host(host) for host in (*own_hosts, *facts.hosts) if not is_shared_host(host)}
        # With more hosts it is not clear which name belongs to which IP.
        if len(hosts) == 2 and sum(map(is_ip, hosts)) == 1:
            ip, name = sorted(hosts, key=is_ip, reverse=True)
            ips[name].add(ip)
            names[ip].add(name)
            id_by_name_and_ip[name, ip] = min(id, id_by_name_and_ip.get((name, ip), id))
    names_by_port: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for id, (host, port) in addresses.items():
        names_by_port[host].append((port, id))
    for (name, ip), registered_id in id_by_name_and_ip.items():
        if len(ips[name]) > 1 or len(names[ip]) > 1:
            continue
        names_of_ip = dict(sorted(names_by_port.get(ip, ()), reverse=True))
        for port, id in names_by_port.get(name, ()):
            if port in names_of_ip:
                evidence = f"the registration of {registered_id} contains both {name} and {ip}"
                yield id, names_of_ip[port], Rule.NAME_AND_IP, evidence


def _pair_short_name(ids: Mapping[str, BookieFacts], addresses: Mapping[str, HostPort]) -> AliasClaims:
    ids_by_address: dict[HostPort, str] = {}
    for id in sorted(addresses, reverse=True):
        ids_by_address[addresses[id]] = id
    hosts = {host for host, _ in ids_by_address}
    hosts |= {normalise_host(host) for facts in ids.values() for host in facts.hosts}
    longer_names: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        for name in shorter_names(host):
            if name in hosts:
                longer_names[name].append(host)
    for name, names_longest_last in longer_names.items():
        names_longest_last.sort(key=len)
        if not all(
            longer_name.startswith(f"{shorter_name}.")
            for shorter_name, longer_name in itertools.pairwise(names_longest_last)
        ):
            longer_names[name] = []
    for (host, port), id in ids_by_address.items():
        nearest_name = next(
            (name for name in longer_names.get(host, ()) if (name, port) in ids_by_address), None
        )
        if nearest_name is not None:
            yield (
                id,
                ids_by_address[nearest_name, port],
                Rule.SHORT_NAME,
                f"{host} may be short for {nearest_name}",
            )
