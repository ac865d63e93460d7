"""Registrations: the addresses that clients use, and ids under which they cannot find a bookie."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, places, tables


def _row(bookie_id: str, host: str | None, port: int | None = 3181, **overrides: object) -> Row:
    return {"bookie_id": bookie_id, "host": host, "port": port if host else None, **overrides}


def test_bookie_without_a_client_endpoint_is_reported(spark: SparkSession) -> None:
    rows = [
        _row("bk1", None, unresolved="bk1 registered no bookie-rpc endpoint (endpoints: http)"),
        _row("bk2", "bk2"),
        # Clients go by its writable registration.
        _row("bk3", None, unresolved="unreadable", mode="readonly", used=False),
    ]
    [finding] = find("endpoint-missing", tables(spark, registrations=rows))
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "error", "confirmed")
    assert "no bookie-rpc endpoint" in finding.message
    assert finding.evidence["mode"] == "writable"


def test_bookies_at_one_address_get_one_finding(spark: SparkSession) -> None:
    rows = [
        _row("bk2", "Host."),
        _row("bk1", "host"),
        _row("bk3", "host", 3182),
        _row("bk1", "host", mode="readonly", used=False),
        _row("bk4", None),
        _row("bk5", None),
    ]
    [finding] = find("endpoint-duplicate", tables(spark, registrations=rows))
    assert (finding.where, finding.severity) == ((None, "bk1"), "error")
    assert finding.evidence == {"address": "host:3181", "bookies": ["bk1", "bk2"]}


def test_endpoint_that_differs_from_the_bookie_id_is_a_note(spark: SparkSession) -> None:
    rows = [
        _row("bk1:3181", "10.0.0.1"),
        _row("BK2.:3181", "bk2"),
        _row("bk3:3181", "bk3", 3182),
        _row("bookie-7", "10.0.0.7"),
        _row("dc1:1:bookie-8", "10.0.0.8"),
        _row("bk9:3181", None),
        _row("[::1]:3181", "::1"),
        _row("1.2.3.4:0003181", "1.2.3.4", empty=True),
    ]
    findings = find("endpoint-drift", tables(spark, registrations=rows))
    assert places(findings) == [(None, "bk1:3181"), (None, "bk3:3181")]
    assert {finding.severity for finding in findings} == {"note"}
    assert findings[1].message == "bk3:3181 is at bk3:3182, not at the address in its id"


def test_reserved_bookie_id_is_reported_if_ensembles_name_it_and_is_no_ghost(spark: SparkSession) -> None:
    bookies = [
        {"bookie_id": "host:0", "has_cookie": False, "registered": None, "ledgers": 1, "depending": 1},
        {"bookie_id": "idle:0", "named": False},
        {"bookie_id": "bk:30", "has_cookie": False, "registered": None, "depending": 1},
    ]
    cluster_tables = tables(spark, bookies=bookies)
    [finding] = find("bookie-id-reserved", cluster_tables)
    assert (finding.where, finding.severity) == ((None, "host:0"), "error")
    assert "1 ledger names it, 1 ledger depends on it" in finding.message
    assert places(find("ghost-bookie", cluster_tables)) == [(None, "bk:30")]


def test_double_registration_is_confirmed_only_by_two_scans(spark: SparkSession) -> None:
    bookies: list[Row] = [
        {"bookie_id": "bk1", "registered_twice": True},
        {"bookie_id": "bk2", "registered": "both"},
    ]
    [saved] = find("registered-twice", tables(spark, bookies=bookies))
    assert (saved.where, saved.severity, saved.confidence) == ((None, "bk1"), "warning", "suspect")
    [live] = find("registered-twice", tables(spark, facts(live=True, two_scans=True), bookies=bookies))
    assert live.confidence == "confirmed"


def test_cluster_without_an_instance_id_gets_one_finding(spark: SparkSession) -> None:
    cookies: list[Row] = [{"bookie_id": "bk1"}, {"bookie_id": "bk2", "instance_id": None}]
    directories: list[Row] = [
        {"path": "/d/1", "place": "bk1"},
        {"path": "/d/2", "place": "bk2", "instance_id": "of another"},
        {"path": "/d/3", "place": "bk2", "instance_id": None},
    ]
    no_id = facts(instance_id=None, instance_id_missing=True)
    [finding] = find("instance-id-missing", tables(spark, no_id, cookies=cookies, directories=directories))
    assert (finding.where, finding.severity) == ((None, None), "warning")
    assert finding.evidence == {"cookies": 1, "versions": 2, "instance_ids": ["a77a8e0d", "of another"]}
    assert finding.message == (
        "the cluster has no INSTANCEID; an instance id exists in 1 cookie in its store "
        "and 2 VERSION files on disks"
    )
    blank_cookies: list[Row] = [{"bookie_id": "bk1", "instance_id": None}]
    [bare] = find("instance-id-missing", tables(spark, no_id, cookies=blank_cookies))
    assert bare.evidence == {"cookies": 0, "versions": 0, "instance_ids": []}
    assert (bare.severity, bare.confidence) == ("note", "confirmed")
    on_disk = [{"path": "/d/1", "place": "bk1"}]
    [formatted] = find(
        "instance-id-missing", tables(spark, no_id, cookies=blank_cookies, directories=on_disk)
    )
    assert formatted.severity == "warning"
    unread = tables(spark, facts(instance_id=None), cookies=cookies)
    assert find("instance-id-missing", unread) == []
    assert find("instance-id-missing", tables(spark, cookies=cookies)) == []


def test_registration_that_is_not_ephemeral_gets_one_finding_per_bookie(spark: SparkSession) -> None:
    rows = [
        _row("bk1", "bk1", ephemeral=False, ctime=7),
        _row("bk1", "bk1", ephemeral=False, ctime=5, mode="readonly", used=False),
        _row("bk2", "bk2"),
        _row("bk3", "bk3", ephemeral=None),  # a dump does not say it
        _row("gone", "gone", ephemeral=False, ctime=None),
    ]
    bookies: list[Row] = [{"bookie_id": "bk1", "ledgers": 3, "registered": None}, {"bookie_id": "bk3"}]
    findings = find("registration-not-ephemeral", tables(spark, registrations=rows, bookies=bookies))
    assert [(finding.where, finding.severity, finding.confidence) for finding in findings] == [
        ((None, "bk1"), "error", "confirmed"),
        ((None, "gone"), "error", "confirmed"),
    ]
    assert findings[0].evidence == {
        "modes": ["readonly", "writable"],
        "since": 5,
        "ledgers": 3,
        "has_cookie": True,
        "found": True,
    }
    assert findings[1].evidence["since"] is None
    assert findings[1].message == (
        "gone: its registration (writable) is not ephemeral, so it does not prove that the "
        "bookie is alive; 0 ledgers name it"
    )


def test_custom_bookie_id_cannot_be_found_without_the_address_resolver(spark: SparkSession) -> None:
    rows = [
        _row("bookie-7", "10.0.0.7"),
        _row("bk1:3181", "bk1"),
        _row("bk2:3181", None, unresolved="bk2:3181 registered no bookie-rpc endpoint (endpoints: http)"),
        _row("bookie-8", "10.0.0.8", mode="readonly", used=False),
    ]
    [finding] = find("endpoint-missing", tables(spark, facts(resolves_ids=False), registrations=rows))
    assert (finding.where, finding.severity) == ((None, "bookie-7"), "error")
    assert finding.message.endswith(
        "the bookie's id is not host:port, and bookieAddressResolverEnabled=false"
    )
    assert places(find("endpoint-missing", tables(spark, registrations=rows))) == [(None, "bk2:3181")]


def test_endpoint_that_differs_from_the_id_is_unused_without_the_resolver(spark: SparkSession) -> None:
    rows = [_row("bk1:3181", "10.0.0.1"), _row("bk2:3181", "bk2"), _row("bookie-7", "10.0.0.7")]
    [finding] = find("endpoint-drift", tables(spark, facts(resolves_ids=False), registrations=rows))
    assert (finding.where, finding.severity) == ((None, "bk1:3181"), "warning")
    assert finding.message.endswith("with bookieAddressResolverEnabled=false, clients cannot find it")


def test_bookies_with_one_endpoint_have_two_addresses_without_the_resolver(spark: SparkSession) -> None:
    off = facts(resolves_ids=False)
    rows = [_row("bk1:3181", "host"), _row("bk2:3181", "host"), _row("bookie-7", "host")]
    assert find("endpoint-duplicate", tables(spark, off, registrations=rows)) == []
    [finding] = find("endpoint-duplicate", tables(spark, registrations=rows))
    assert finding.evidence["bookies"] == ["bk1:3181", "bk2:3181", "bookie-7"]
    same = [_row("bk1:3181", "10.0.0.1"), _row("BK1:3181", "10.0.0.2")]
    [finding] = find("endpoint-duplicate", tables(spark, off, registrations=same))
    assert finding.evidence["address"] == "bk1:3181"
