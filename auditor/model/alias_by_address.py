"""Ids that may be one bookie because of the addresses that they are, or were registered at.

The rules and their strengths are those of `auditor.model.bookie_alias`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping

from auditor.model.alias_facts import BookieFacts, Found, HostPort, Rule
from auditor.model.bookie_id import legacy_address
from auditor.model.host_names import anyones, is_ip, same_name, shorter_names

MAX_PORT = 65535


def comparable(address: HostPort | None) -> HostPort | None:
    """An address as it can be compared; None for one that is another machine to everyone.

    >>> comparable(("BK1.", 3181)), comparable(("localhost", 3181))
    (('bk1', 3181), None)
    """
    if address is None or anyones(address[0]):
        return None
    return same_name(address[0]), address[1]


def by_addresses(ids: Mapping[str, BookieFacts]) -> Found:
    """Every pair that a rule on addresses holds for one bookie, whatever speaks against it."""
    addresses = {id: address for id in ids if (address := comparable(_address_in_id(id))) is not None}
    yield from _same_address(addresses)
    yield from _by_endpoint(ids, addresses)
    yield from _name_and_ip(ids, addresses)
    yield from _short_name(ids, addresses)


def _address_in_id(id: str) -> HostPort | None:
    """The address that an id is; not what the server makes of ``dc1:1:bookie-7``, which is a custom id."""
    address = legacy_address(id) if id.count(":") == 1 else None
    return address if address is not None and 0 < address[1] <= MAX_PORT else None


def _same_address(addresses: Mapping[str, HostPort]) -> Found:
    for (host, port), same in _ids_at(addresses).items():
        first, *others = sorted(same)
        for other in others:
            yield first, other, Rule.SAME_ADDRESS, f"both say {host}:{port}"


def _ids_at(addresses: Mapping[str, HostPort]) -> dict[HostPort, list[str]]:
    ids: dict[HostPort, list[str]] = defaultdict(list)
    for id, address in addresses.items():
        ids[address].append(id)
    return ids


def _by_endpoint(ids: Mapping[str, BookieFacts], addresses: Mapping[str, HostPort]) -> Found:
    answering = {
        id: where
        for id, known in ids.items()
        if known.registered and (where := comparable(known.address)) is not None
    }
    says = _ids_at(addresses)
    for (host, port), there in _ids_at(answering).items():
        # More than two at one address share a proxy, or a configuration that was copied to all of them.
        if len(there) == 2:
            yield there[0], there[1], Rule.SAME_ENDPOINT, f"both are registered at {host}:{port}"
        elif len(there) == 1:
            for id in says.get((host, port), ()):
                if not ids[id].registered:
                    yield id, there[0], Rule.ENDPOINT_IS_ID, f"{there[0]} is registered at {host}:{port}"


def _name_and_ip(ids: Mapping[str, BookieFacts], addresses: Mapping[str, HostPort]) -> Found:
    ips: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    shown_by: dict[tuple[str, str], str] = {}
    for id, known in ids.items():
        if not known.registered:
            continue
        own = [addresses[id][0]] if id in addresses else []
        hosts = {same_name(host) for host in (*own, *known.hosts) if not anyones(host)}
        # Were there more, it would be no telling which is whose.
        if len(hosts) == 2 and sum(map(is_ip, hosts)) == 1:
            ip, name = sorted(hosts, key=is_ip, reverse=True)
            ips[name].add(ip)
            names[ip].add(name)
            shown_by[name, ip] = min(id, shown_by.get((name, ip), id))
    by_host: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for id, (host, port) in addresses.items():
        by_host[host].append((port, id))
    for (name, ip), witness in shown_by.items():
        if len(ips[name]) > 1 or len(names[ip]) > 1:
            continue
        by_ip = dict(sorted(by_host.get(ip, ()), reverse=True))
        for port, id in by_host.get(name, ()):
            if port in by_ip:
                evidence = f"the registration of {witness} shows {name} and {ip}"
                yield id, by_ip[port], Rule.NAME_AND_IP, evidence


def _short_name(ids: Mapping[str, BookieFacts], addresses: Mapping[str, HostPort]) -> Found:
    by_address: dict[HostPort, str] = {}
    for id in sorted(addresses, reverse=True):
        by_address[addresses[id]] = id
    hosts = {host for host, _ in by_address}
    hosts |= {same_name(host) for known in ids.values() for host in known.hosts}
    longer: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        for name in shorter_names(host):
            if name in hosts:
                longer[name].append(host)
    for name, its_longer in longer.items():
        its_longer.sort(key=len)
        if not all(_extends(*pair) for pair in itertools.pairwise(its_longer)):
            longer[name] = []
    for (host, port), id in by_address.items():
        nearest = next((name for name in longer.get(host, ()) if (name, port) in by_address), None)
        if nearest is not None:
            yield id, by_address[nearest, port], Rule.SHORT_NAME, f"{host} may be {nearest}"


def _extends(name: str, longer: str) -> bool:
    return longer.startswith(f"{name}.")
