"""Registrations: where clients look for a bookie, and ids that nobody can be found by."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, places, tables


def _at(bookie_id: str, host: str | None, port: int | None = 3181, **said: object) -> Row:
    return {"bookie_id": bookie_id, "host": host, "port": port if host else None, **said}


def test_a_bookie_that_clients_look_for_nowhere_is_told(spark: SparkSession) -> None:
    rows = [
        _at("bk1", None, unresolved="bk1 registered no bookie-rpc endpoint (endpoints: http)"),
        _at("bk2", "bk2"),
        # Clients go by its writable registration.
        _at("bk3", None, unresolved="unreadable", mode="readonly", used=False),
    ]
    [found] = find("endpoint-missing", tables(spark, registrations=rows))
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "error", "confirmed")
    assert "no bookie-rpc endpoint" in found.message
    assert found.evidence["mode"] == "writable"


def test_bookies_at_one_address_are_one_finding(spark: SparkSession) -> None:
    rows = [
        _at("bk2", "Host."),
        _at("bk1", "host"),
        _at("bk3", "host", 3182),
        _at("bk1", "host", mode="readonly", used=False),
        _at("bk4", None),
        _at("bk5", None),
    ]
    [found] = find("endpoint-duplicate", tables(spark, registrations=rows))
    assert (found.where, found.severity) == ((None, "bk1"), "error")
    assert found.evidence == {"address": "host:3181", "bookies": ["bk1", "bk2"]}


def test_an_id_that_is_another_address_is_a_note(spark: SparkSession) -> None:
    rows = [
        _at("bk1:3181", "10.0.0.1"),
        _at("BK2.:3181", "bk2"),
        _at("bk3:3181", "bk3", 3182),
        _at("bookie-7", "10.0.0.7"),
        _at("dc1:1:bookie-8", "10.0.0.8"),
        _at("bk9:3181", None),
        _at("[::1]:3181", "::1"),
        _at("1.2.3.4:0003181", "1.2.3.4", empty=True),
    ]
    found = find("endpoint-drift", tables(spark, registrations=rows))
    assert places(found) == [(None, "bk1:3181"), (None, "bk3:3181")]
    assert {each.severity for each in found} == {"note"}
    assert found[1].message == "bk3:3181 is at bk3:3182, not at the address in its id"


def test_a_stand_in_of_a_host_is_told_where_ensembles_name_it_and_is_no_ghost(spark: SparkSession) -> None:
    bookies = [
        {"bookie_id": "host:0", "has_cookie": False, "registered": None, "ledgers": 1, "depending": 1},
        {"bookie_id": "idle:0", "named": False},
        {"bookie_id": "bk:30", "has_cookie": False, "registered": None, "depending": 1},
    ]
    asked = tables(spark, bookies=bookies)
    [found] = find("bookie-id-reserved", asked)
    assert (found.where, found.severity) == ((None, "host:0"), "error")
    assert "1 ledger names it, 1 ledger depends on it" in found.message
    assert places(find("ghost-bookie", asked)) == [(None, "bk:30")]


def test_both_registrations_are_sure_only_if_two_scans_saw_them(spark: SparkSession) -> None:
    bookies: list[Row] = [
        {"bookie_id": "bk1", "registered_twice": True},
        {"bookie_id": "bk2", "registered": "both"},
    ]
    [saved] = find("registered-twice", tables(spark, bookies=bookies))
    assert (saved.where, saved.severity, saved.confidence) == ((None, "bk1"), "warning", "suspect")
    [live] = find("registered-twice", tables(spark, facts(live=True, two_scans=True), bookies=bookies))
    assert live.confidence == "confirmed"


def test_a_cluster_without_an_instance_id_is_one_finding(spark: SparkSession) -> None:
    cookies: list[Row] = [{"bookie_id": "bk1"}, {"bookie_id": "bk2", "instance_id": None}]
    directories: list[Row] = [
        {"path": "/d/1", "place": "bk1"},
        {"path": "/d/2", "place": "bk2", "instance_id": "of another"},
        {"path": "/d/3", "place": "bk2", "instance_id": None},
    ]
    gone = facts(instance_id=None, instance_id_missing=True)
    [found] = find("instance-id-missing", tables(spark, gone, cookies=cookies, directories=directories))
    assert (found.where, found.severity) == ((None, None), "warning")
    assert found.evidence == {"cookies": 1, "versions": 2, "instance_ids": ["a77a8e0d", "of another"]}
    assert found.message == (
        "the cluster has no INSTANCEID; an instance id exists in 1 cookie in its store "
        "and 2 VERSION files on disks"
    )
    never: list[Row] = [{"bookie_id": "bk1", "instance_id": None}]
    [bare] = find("instance-id-missing", tables(spark, gone, cookies=never))
    assert bare.evidence == {"cookies": 0, "versions": 0, "instance_ids": []}
    assert (bare.severity, bare.confidence) == ("note", "confirmed")
    on_disk = [{"path": "/d/1", "place": "bk1"}]
    [formatted] = find("instance-id-missing", tables(spark, gone, cookies=never, directories=on_disk))
    assert formatted.severity == "warning"
    unread = tables(spark, facts(instance_id=None), cookies=cookies)
    assert find("instance-id-missing", unread) == []
    assert find("instance-id-missing", tables(spark, cookies=cookies)) == []


def test_a_registration_that_nothing_keeps_alive_is_told_once_a_bookie(spark: SparkSession) -> None:
    rows = [
        _at("bk1", "bk1", ephemeral=False, ctime=7),
        _at("bk1", "bk1", ephemeral=False, ctime=5, mode="readonly", used=False),
        _at("bk2", "bk2"),
        _at("bk3", "bk3", ephemeral=None),  # a dump does not say it
        _at("gone", "gone", ephemeral=False, ctime=None),
    ]
    bookies: list[Row] = [{"bookie_id": "bk1", "ledgers": 3, "registered": None}, {"bookie_id": "bk3"}]
    found = find("registration-not-ephemeral", tables(spark, registrations=rows, bookies=bookies))
    assert [(each.where, each.severity, each.confidence) for each in found] == [
        ((None, "bk1"), "error", "confirmed"),
        ((None, "gone"), "error", "confirmed"),
    ]
    assert found[0].evidence == {
        "modes": ["readonly", "writable"],
        "since": 5,
        "ledgers": 3,
        "has_cookie": True,
        "found": True,
    }
    assert found[1].evidence["since"] is None
    assert found[1].message == (
        "gone: its registration (writable) is not ephemeral, so it does not prove that the "
        "bookie is alive; 0 ledgers name it"
    )


def test_with_the_resolver_off_a_custom_id_cannot_be_found(spark: SparkSession) -> None:
    rows = [
        _at("bookie-7", "10.0.0.7"),
        _at("bk1:3181", "bk1"),
        _at("bk2:3181", None, unresolved="bk2:3181 registered no bookie-rpc endpoint (endpoints: http)"),
        _at("bookie-8", "10.0.0.8", mode="readonly", used=False),
    ]
    [found] = find("endpoint-missing", tables(spark, facts(resolves_ids=False), registrations=rows))
    assert (found.where, found.severity) == ((None, "bookie-7"), "error")
    assert found.message.endswith("the bookie's id is not host:port, and bookieAddressResolverEnabled=false")
    assert places(find("endpoint-missing", tables(spark, registrations=rows))) == [(None, "bk2:3181")]


def test_with_the_resolver_off_an_endpoint_that_differs_from_the_id_is_not_used(spark: SparkSession) -> None:
    rows = [_at("bk1:3181", "10.0.0.1"), _at("bk2:3181", "bk2"), _at("bookie-7", "10.0.0.7")]
    [found] = find("endpoint-drift", tables(spark, facts(resolves_ids=False), registrations=rows))
    assert (found.where, found.severity) == ((None, "bk1:3181"), "warning")
    assert found.message.endswith("with bookieAddressResolverEnabled=false, clients cannot find it")


def test_with_the_resolver_off_two_bookies_with_one_endpoint_are_two_addresses(spark: SparkSession) -> None:
    off = facts(resolves_ids=False)
    rows = [_at("bk1:3181", "host"), _at("bk2:3181", "host"), _at("bookie-7", "host")]
    assert find("endpoint-duplicate", tables(spark, off, registrations=rows)) == []
    [found] = find("endpoint-duplicate", tables(spark, registrations=rows))
    assert found.evidence["bookies"] == ["bk1:3181", "bk2:3181", "bookie-7"]
    same = [_at("bk1:3181", "10.0.0.1"), _at("BK1:3181", "10.0.0.2")]
    [found] = find("endpoint-duplicate", tables(spark, off, registrations=same))
    assert found.evidence["address"] == "bk1:3181"
