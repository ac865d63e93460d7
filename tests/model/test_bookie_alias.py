"""Ids that may belong to one bookie."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.store import service_info
from auditor.model.alias_evidence import BookieFacts, ContentComparison, Edge, PairContents, Rule
from auditor.model.bookie_alias import alias_edges, find_identities, group_aliases
from auditor.model.bookie_id import Address, Registration, resolve_address
from auditor.model.cookie import Cookie
from tests.model.cookie_cases import CORPORA, DATA, store_of, versions_of


def cookie(id: str, disk: str = "/data", instance_id: str | None = "x") -> Cookie:
    return Cookie(5, id, f"{disk}/journal", (f"{disk}/ledgers",), None, instance_id)


def live_at(host: str, port: int = 3181, *more_hosts: str, cookie: Cookie | None = None) -> BookieFacts:
    """Return the facts of a bookie that is registered at a host and port."""
    return BookieFacts(True, (host, port), (host, *more_hosts), cookie)


def rules(ids: dict[str, BookieFacts]) -> list[tuple[str, str, Rule, bool]]:
    return [(edge.one, edge.other, edge.rule, edge.joins) for edge in alias_edges(ids)]


def joined_groups(ids: dict[str, BookieFacts]) -> tuple[tuple[str, ...], ...]:
    return group_aliases(alias_edges(ids))


DOWN = BookieFacts()


# Each rule finds what it is for.


@pytest.mark.parametrize("spelling", ["BK1.dc1:3181", "bk1.dc1.:3181"])
def test_two_spellings_of_one_address_join(spelling: str) -> None:
    [(*_, rule, joins)] = rules({"bk1.dc1:3181": DOWN, spelling: DOWN})
    assert (rule, joins) == (Rule.SAME_ADDRESS, True)


@pytest.mark.parametrize("old", ["10.0.0.1:3181", "bk1.dc1:3181", "BK1.DC1:3181"])
def test_old_id_that_is_the_endpoint_of_another_bookie_joins(old: str) -> None:
    host = old.removesuffix(":3181").lower()
    assert rules({old: DOWN, "bookie-7": live_at(host)}) == [(old, "bookie-7", Rule.ENDPOINT_IS_ID, True)]


def test_two_registrations_at_one_address_join() -> None:
    ids = {"10.0.0.1:3181": live_at("10.0.0.1"), "bookie-7": live_at("10.0.0.1")}
    assert rules(ids) == [("10.0.0.1:3181", "bookie-7", Rule.SAME_ENDPOINT, True)]


def test_name_and_ip_in_a_neighbours_registration_join() -> None:
    # Another bookie of the same machine says both.
    ids = {"bk1:3181": DOWN, "10.0.0.1:3181": DOWN, "bk1:3182": live_at("10.0.0.1", 3182)}
    [edge] = alias_edges(ids)
    assert (edge.one, edge.other, edge.rule, edge.joins) == (
        "10.0.0.1:3181",
        "bk1:3181",
        Rule.NAME_AND_IP,
        True,
    )
    assert edge.evidence == "the registration of bk1:3182 contains both bk1 and 10.0.0.1"


def test_name_and_ip_in_the_endpoints_of_one_bookie_join() -> None:
    ids = {"10.0.0.1:3181": DOWN, "bk1:3181": live_at("bk1", 3181, "10.0.0.1", "0.0.0.0")}
    assert rules(ids) == [("10.0.0.1:3181", "bk1:3181", Rule.NAME_AND_IP, True)]


@pytest.mark.parametrize("short", ["bk1", "bk1.dc1"])
def test_short_name_is_a_hint_and_does_not_join(short: str) -> None:
    ids = {f"{short}:3181": DOWN, "bk1.dc1.example:3181": live_at("bk1.dc1.example")}
    assert rules(ids) == [("bk1.dc1.example:3181", f"{short}:3181", Rule.SHORT_NAME, False)]
    assert joined_groups(ids) == ()


def test_ever_longer_names_form_a_chain_of_edges() -> None:
    ids = {"bk1:3181": DOWN, "bk1.dc1:3181": DOWN, "bk1.dc1.example:3181": DOWN}
    assert [edge[:2] for edge in rules(ids)] == [
        ("bk1.dc1.example:3181", "bk1.dc1:3181"),
        ("bk1.dc1:3181", "bk1:3181"),
    ]


def test_a_cookie_that_carries_another_id_is_a_hint() -> None:
    ids = {"bk-new": BookieFacts(cookie=cookie("bk-old")), "bk-old": DOWN}
    assert rules(ids) == [("bk-new", "bk-old", Rule.COOKIE_NAMES, False)]


def test_disks_that_all_carry_another_id_are_a_hint() -> None:
    ids = {"bk-new": BookieFacts(disk_ids=("bk-old", "bk-old")), "bk-old": DOWN}
    assert rules(ids) == [("bk-new", "bk-old", Rule.DISKS_NAME, False)]


def test_directories_that_only_two_bookies_share_are_a_hint() -> None:
    ids = {
        f"bk-{name}": BookieFacts(cookie=cookie(f"bk-{name}", f"/disk{name[0]}"))
        for name in ("1", "1b", "2", "3")
    }
    assert rules(ids) == [("bk-1", "bk-1b", Rule.SAME_DIRECTORIES, False)]


def test_two_hints_of_different_kinds_join() -> None:
    ids = {"bk1:3181": BookieFacts(cookie=cookie("bk1.dc1:3181")), "bk1.dc1:3181": DOWN}
    assert joined_groups(ids) == (("bk1.dc1:3181", "bk1:3181"),)


def test_aliases_of_an_alias_are_one_bookie() -> None:
    ids = {
        "10.0.0.1:3181": DOWN,
        "bk1:3181": DOWN,
        "BK1:3181": DOWN,
        "bookie-7": live_at("bk1", 3181, "10.0.0.1"),
    }
    assert joined_groups(ids) == (("10.0.0.1:3181", "BK1:3181", "bk1:3181", "bookie-7"),)


# None cries wolf.


def test_common_port_is_no_alias() -> None:
    assert rules({f"bk{number}:3181": live_at(f"bk{number}") for number in range(20)}) == []


def test_same_host_with_another_port_is_no_alias() -> None:
    assert (
        rules({"bk1:3181": DOWN, "bk1:3182": DOWN, "BK1:3183": DOWN, "bookie-7": live_at("bk1", 3184)}) == []
    )


def test_short_name_of_two_data_centres_is_no_alias() -> None:
    assert rules({"bk1:3181": DOWN, "bk1.dc1:3181": DOWN, "bk1.dc2:3181": DOWN}) == []
    assert rules({"bk1.dc1:3181": DOWN, "bk1.dc2:3181": DOWN}) == []
    # The second one need not be a bookie's id to be seen.
    assert rules({"bk1:3181": DOWN, "bk1.dc1:3181": DOWN, "bookie-7": live_at("bk1.dc2")}) == []


def test_the_first_numbers_of_an_ip_are_no_short_name() -> None:
    assert rules({"10.0:3181": DOWN, "10.0.0.1:3181": DOWN}) == []


def test_prefix_of_a_label_is_no_short_name() -> None:
    assert rules({"bk1:3181": DOWN, "bk10.dc1:3181": DOWN}) == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0"])
def test_local_address_is_no_alias(host: str) -> None:
    assert rules({f"{host}:3181": DOWN, "bookie-7": live_at(host), "bookie-8": live_at(host)}) == []


def test_custom_ids_with_colons_are_no_addresses() -> None:
    # To the server both are port 1 of a host dc1.
    assert rules({"dc1:1:bookie-7": DOWN, "dc1:1:bookie-8": DOWN}) == []
    assert rules({"dc1:0": DOWN, "DC1:0": DOWN}) == []


def test_custom_ids_that_differ_in_case_are_no_aliases() -> None:
    assert rules({"bookie-7": DOWN, "Bookie-7": DOWN}) == []


def test_common_directory_layout_is_no_alias() -> None:
    for size in (2, 3, 20):
        assert rules({f"bk{n}": BookieFacts(cookie=cookie(f"bk{n}")) for n in range(size)}) == []
    two_kinds = {f"bk{n}": BookieFacts(cookie=cookie(f"bk{n}", f"/disk{n % 2}")) for n in range(4)}
    assert rules(two_kinds) == []


def test_directories_of_another_cluster_are_no_alias() -> None:
    ids = {f"bk-{n}": BookieFacts(cookie=cookie(f"bk-{n}", f"/disk{n}")) for n in range(4)}
    ids["bk-0b"] = BookieFacts(cookie=cookie("bk-0b", "/disk0", "another"))
    ids["bk-1b"] = BookieFacts(cookie=cookie("bk-1b", "/disk1", None))
    assert rules(ids) == []


def test_three_bookies_at_one_address_are_no_aliases() -> None:
    ids = {f"bookie-{number}": live_at("10.0.0.1") for number in range(3)}
    assert rules(ids | {"10.0.0.1:3181": DOWN}) == []


@pytest.mark.parametrize("second", [live_at("10.0.0.2"), live_at("bk1", 3182), BookieFacts(registered=True)])
def test_two_registered_bookies_are_no_aliases(second: BookieFacts) -> None:
    for ids in (
        {"bk1:3181": live_at("10.0.0.1"), "BK1:3181": second},
        {"bk1:3181": live_at("10.0.0.1"), "bk1.dc1:3181": second},
        {"bk1:3181": replace(live_at("10.0.0.1"), cookie=cookie("bk2:3181")), "bk2:3181": second},
        {"bk1:3181": replace(live_at("10.0.0.1"), disk_ids=("bk2:3181",)), "bk2:3181": second},
    ):
        assert rules(ids) == []


def test_exchanged_addresses_are_no_aliases() -> None:
    assert rules({"10.0.0.1:3181": live_at("10.0.0.2"), "10.0.0.2:3181": live_at("10.0.0.1")}) == []


def test_address_reused_by_a_new_bookie_is_a_hint() -> None:
    # Both have a cookie, and a renamed bookie would have kept its directories.
    ids = {
        "10.0.0.1:3181": BookieFacts(cookie=cookie("10.0.0.1:3181", "/old")),
        "bk1:3181": live_at("10.0.0.1", cookie=cookie("bk1:3181", "/new")),
    }
    assert [edge[2:] for edge in rules(ids)] == [(Rule.ENDPOINT_IS_ID, False), (Rule.NAME_AND_IP, False)]
    assert joined_groups(ids) == ()


@pytest.mark.parametrize("moved", [("bk1", "10.0.0.2"), ("bk2", "10.0.0.1")])
def test_name_of_two_ips_or_ip_of_two_names_is_no_alias(moved: tuple[str, str]) -> None:
    name, ip = moved
    ids = {
        "bk1:3181": DOWN,
        "10.0.0.1:3181": DOWN,
        "bk1:3182": live_at("10.0.0.1", 3182),
        f"{name}:3183": live_at(ip, 3183),
    }
    assert rules(ids) == []


def test_swapped_disk_is_no_alias() -> None:
    assert (
        rules(
            {"bk-a": BookieFacts(disk_ids=("bk-a", "bk-b")), "bk-b": BookieFacts(disk_ids=("bk-b", "bk-a"))}
        )
        == []
    )


def test_two_bookies_with_exchanged_disks_are_no_aliases() -> None:
    assert (
        rules({"bk-a": BookieFacts(disk_ids=("bk-b", "bk-b")), "bk-b": BookieFacts(disk_ids=("bk-a",))}) == []
    )


def test_disk_id_in_two_bookies_is_no_alias() -> None:
    ids = {"bk-a": BookieFacts(disk_ids=("bk-c",)), "bk-b": BookieFacts(disk_ids=("bk-c",)), "bk-c": DOWN}
    assert rules(ids) == []


def test_id_known_only_from_a_cookie_or_disk_is_no_alias() -> None:
    assert rules({"bk-a": BookieFacts(cookie=cookie("bk-x"), disk_ids=("bk-y",))}) == []


def test_two_address_hints_do_not_join() -> None:
    edges = [Edge("a", "b", Rule.SHORT_NAME, False, ""), Edge("a", "b", Rule.ENDPOINT_IS_ID, False, "")]
    assert group_aliases(edges) == ()


# What ledgers say.

OLD, NEW = "10.0.0.1:3181", "bookie-7"
AT_ITS_ADDRESS = {OLD: DOWN, NEW: live_at("10.0.0.1")}


def compared(contents: PairContents) -> ContentComparison:
    return ContentComparison(
        {OLD: contents.expected_ledgers}, {(OLD, NEW): contents}, {NEW} if contents.is_fully_read else set()
    )


def joining_rules(
    ids: dict[str, BookieFacts], ledgers: ContentComparison
) -> tuple[list[Rule], tuple[tuple[str, ...], ...]]:
    edges = alias_edges(ids, ledgers)
    return [edge.rule for edge in edges if edge.joins], group_aliases(edges)


def test_matching_ledgers_join_without_other_evidence() -> None:
    ids = {OLD: DOWN, NEW: live_at("elsewhere")}
    assert joining_rules(ids, compared(PairContents(40, held_ledgers=30, matching_ledgers=21))) == (
        [Rule.SAME_LEDGERS],
        ((OLD, NEW),),
    )


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(
            PairContents(4, held_ledgers=4, matching_ledgers=4),
            id="few ledgers may be copies that someone is making",
        ),
        pytest.param(
            PairContents(40, held_ledgers=40, matching_ledgers=20),
            id="half of them a dead bookie's successor has too",
        ),
    ],
)
def test_few_or_half_matching_ledgers_do_not_join(contents: PairContents) -> None:
    assert joining_rules({OLD: DOWN, NEW: live_at("elsewhere")}, compared(contents)) == ([], ())


def test_matching_ledgers_join_despite_different_cookie_directories() -> None:
    # The disks were mounted elsewhere when the bookie got its new id.
    ids = {OLD: BookieFacts(cookie=cookie(OLD, "/a")), NEW: live_at("10.0.0.1", cookie=cookie(NEW, "/b"))}
    rules_, groups = joining_rules(ids, compared(PairContents(9, held_ledgers=9, matching_ledgers=9)))
    assert (rules_, groups) == ([Rule.SAME_LEDGERS], ((OLD, NEW),))


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(
            PairContents(1, is_fully_read=True), id="a machine that was set up anew at an old address"
        ),
        pytest.param(
            PairContents(9, shared_ledgers=8, is_fully_read=True),
            id="nothing of the one ledger that is not of both",
        ),
        pytest.param(
            PairContents(9, shared_ledgers=5, same_ensemble_ledgers=5),
            id="both wrote the same ensembles, so both were there",
        ),
    ],
)
def test_contradicting_ledgers_separate_bookies_despite_other_evidence(contents: PairContents) -> None:
    ids = dict(AT_ITS_ADDRESS)
    ids[NEW] = replace(ids[NEW], cookie=cookie(OLD), disk_ids=(OLD,))
    edges = alias_edges(ids, compared(contents))
    assert {edge.rule for edge in edges} == {Rule.ENDPOINT_IS_ID, Rule.COOKIE_NAMES, Rule.DISKS_NAME}
    assert all(edge.apart and not edge.joins and edge.against for edge in edges)
    assert group_aliases(edges) == ()


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(PairContents(9), id="an index that was not read whole"),
        pytest.param(PairContents(9, held_ledgers=1, is_fully_read=True), id="one ledger of it is there"),
        pytest.param(
            PairContents(9, shared_ledgers=9, is_fully_read=True),
            id="every ledger names both, and no ensemble does",
        ),
        pytest.param(PairContents(8, shared_ledgers=4, same_ensemble_ledgers=4), id="half of the ensembles"),
    ],
)
def test_inconclusive_ledgers_keep_the_address_join(contents: PairContents) -> None:
    assert joining_rules(AT_ITS_ADDRESS, compared(contents)) == ([Rule.ENDPOINT_IS_ID], ((OLD, NEW),))


def test_id_whose_ledgers_a_fully_read_bookie_lacks_does_not_join() -> None:
    for whole, groups in ((set(), ((OLD, NEW),)), ({NEW}, ())):
        assert (
            group_aliases(alias_edges(AT_ITS_ADDRESS, ContentComparison({OLD: 3}, fully_read_bookies=whole)))
            == groups
        )


# Identities.


def test_every_id_has_an_identity() -> None:
    ids = AT_ITS_ADDRESS | {"bookie-8": live_at("10.0.0.8")}
    assert find_identities(ids, alias_edges(ids)) == {OLD: OLD, NEW: OLD, "bookie-8": "bookie-8"}


def test_two_registered_bookies_that_match_a_third_stay_separate() -> None:
    # The name of bk1 and the address of bookie-7 cannot both be the old id's.
    ids = {OLD: DOWN, "bk1:3181": live_at("bk1", 3181, "10.0.0.1"), NEW: live_at("10.0.0.1")}
    edges = alias_edges(ids)
    assert len(group_aliases(edges)[0]) == 3
    assert find_identities(ids, edges) == {id: id for id in ids}


# The corpora.


def corpus(name: str) -> dict[str, BookieFacts]:
    """Return facts of all ids of a corpus's store outside its ledgers, and an ensemble's unknown one."""
    _, cookies, registered = store_of(name)
    versions = versions_of(name)
    ids = {}
    for id in {*cookies, *registered, *versions, "bk-x.rack9", "bk-z.rack9"}:
        stored, data = cookies.get(id), registered.get(id)
        endpoints = service_info.decode(data, id).endpoints if data else ()
        address = resolve_address(id, Registration(endpoints if data else None) if id in registered else None)
        ids[id] = BookieFacts(
            id in registered,
            (address.host, address.port) if isinstance(address, Address) else None,
            tuple(endpoint.host for endpoint in endpoints),
            stored if isinstance(stored, Cookie) else None,
            tuple(version.bookie_id for version in versions.get(id, {}).values()),
        )
    return ids


@pytest.mark.parametrize("name", CORPORA)
def test_renamed_bookie_is_the_only_alias_in_the_corpora(name: str) -> None:
    oracle = json.loads(gzip.decompress((DATA / name / "oracle.json.gz").read_bytes()))
    renamed = [fault for fault in oracle["faults"] if fault["kind"] == "bookie-renamed"]
    expected = tuple(tuple(sorted((fault["bookie"], fault["oldId"]))) for fault in renamed)
    ids = corpus(name)
    assert joined_groups(ids) == expected
    edges = [edge for edge in alias_edges(ids) if (edge.one, edge.other) not in expected]
    # In the place of bk-c.rack2 the store's cookie carries an id that, here, is known.
    assert [(edge.one, edge.other, edge.rule) for edge in edges] == (
        [("bk-c.rack2", "bk-x.rack9", Rule.COOKIE_NAMES)] if renamed else []
    )


# Properties.

HOSTS = st.sampled_from(["a", "A", "a.x", "a.y", "a.x.y", "10.0.0.1", "10.0.0.2", "localhost", "b"])
IDS = st.builds("{}:{}".format, HOSTS, st.sampled_from([1, 2])) | st.sampled_from(["bk-a", "bk-b"])
COOKIES = st.builds(cookie, IDS, st.sampled_from(["/1", "/2", "/3", "/4"]))
ADDRESSES = st.tuples(HOSTS, st.sampled_from([1, 2]))
FACTS = st.builds(
    BookieFacts,
    st.booleans(),
    st.none() | ADDRESSES,
    st.lists(HOSTS, max_size=3).map(tuple),
    st.none() | COOKIES,
    st.lists(IDS, max_size=2).map(tuple),
)
CLUSTERS = st.dictionaries(IDS, FACTS, max_size=8)


@given(CLUSTERS)
def test_order_of_ids_does_not_change_the_edges(ids: dict[str, BookieFacts]) -> None:
    assert alias_edges(dict(reversed(ids.items()))) == alias_edges(ids)


@given(CLUSTERS)
def test_edges_are_unique_per_rule_and_between_given_ids(ids: dict[str, BookieFacts]) -> None:
    edges = alias_edges(ids)
    assert all(edge.one < edge.other and {edge.one, edge.other} <= ids.keys() for edge in edges)
    assert len({(edge.one, edge.other, edge.rule) for edge in edges}) == len(edges)
    assert all(edge.evidence for edge in edges)


@given(CLUSTERS)
def test_two_registered_bookies_at_different_addresses_have_no_edge(ids: dict[str, BookieFacts]) -> None:
    for edge in alias_edges(ids):
        first, second = ids[edge.one], ids[edge.other]
        if first.registered and second.registered:
            assert first.address is not None
            assert second.address is not None
            assert (first.address[0].lower(), first.address[1]) == (
                second.address[0].lower(),
                second.address[1],
            )


@given(CLUSTERS)
def test_alias_groups_are_disjoint(ids: dict[str, BookieFacts]) -> None:
    groups = joined_groups(ids)
    members = [id for group in groups for id in group]
    assert len(members) == len(set(members))
    assert all(len(group) > 1 for group in groups)


def test_grouping_ten_thousand_bookies_takes_under_5_seconds() -> None:
    # As bad as it gets: one first label, one layout, one place's id on all disks, and every second renamed.
    ids = {}
    for number in range(5_000):
        name, ip = f"bk.pod{number}.example", f"10.0.{number // 250}.{number % 250}"
        ids[f"{name}:3181"] = live_at(ip, cookie=cookie(f"{name}:3181"))
        ids[f"{ip}:3181"] = BookieFacts(cookie=cookie(f"{ip}:3181"), disk_ids=("bk:3181",))
        ids[f"bk:{number + 1}"] = live_at("10.255.0.1", 3181)
    began = time.process_time()
    groups = joined_groups(ids)
    assert time.process_time() - began < 5
    assert len(groups) == 5_000
