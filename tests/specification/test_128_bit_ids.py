"""BP-35: the 128-bit ledger id, its qualified name, and the commands that accept them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

import click
import pytest

from auditor.cli import main
from auditor.codecs.bookie.wire import list_request, unaskable_scope_reason
from auditor.keys import etcd, ledger_path
from auditor.model.finding import Finding
from auditor.model.ledger_id import LayoutKind, LedgerId
from auditor.sources.metadata.ledgers import find_ledger, list_ledgers, path_of
from tests.cli.test_doors import bkaudit
from tests.corpora.cluster import Cluster
from tests.corpora.generator import stored
from tests.specification.sentences import sentence

BOOKIES = ("a:3181", "b:3181", "c:3181")
OLD, SCOPED, UUID_LEDGER = (
    LedgerId(7),
    LedgerId(7, scope=1),
    LedgerId.parse("f7a1b0c2-4f89-41d3-9a0c-0305e82c3301"),
)
LAST = {OLD: 10, SCOPED: 11, UUID_LEDGER: 12}


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the URIs of the same ledgers in a dump of ZooKeeper and in one of etcd."""
    cluster = Cluster(layout="longhierarchical")
    for ledger, last in LAST.items():
        cluster.ledger(ledger if ledger.scope else ledger.id, {0: BOOKIES}, (3, 2), last)
    with stored(cluster, tmp_path_factory.mktemp("ids"), "zk-dump", "etcd-dump") as stored_uris:
        yield stored_uris


def show_last_entry(uri: str, *name: str) -> int:
    """Return the last entry of the ledger, as `bkaudit ledger show` prints it."""
    outcome = bkaudit("ledger", "show", "--metadata", uri, *name)
    assert outcome.exit_code == 0, outcome.output
    last: int = json.loads(outcome.stdout)["metadata"]["last_entry_id"]
    return last


def list_ids(uri: str, *scope: str) -> list[tuple[str, str]]:
    outcome = bkaudit("ledger", "list", "--metadata", uri, *scope)
    rows = [json.loads(line) for line in outcome.stdout.splitlines()]
    return [(row["scope_id"], row["ledger_id"]) for row in rows]


def commands_with(option: str) -> set[str]:
    """Return the commands that accept an option, as a user types them."""

    def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield name, command
            return
        context = click.Context(command)
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            assert below is not None
            yield from walk(below, f"{name} {child}".strip())

    return {
        name
        for name, command in walk(main, "")
        if any(option in parameter.opts for parameter in command.params)
    }


@sentence("35-01")
def test_scope_is_the_most_significant_half_of_qualified_name() -> None:
    assert int(LedgerId(1, scope=2).qualified_name, 16) >> 64 == 2


@sentence("35-02")
def test_id_is_the_least_significant_half_of_qualified_name() -> None:
    assert int(LedgerId(1, scope=2).qualified_name, 16) & (2**64 - 1) == 1


@sentence("35-03")
def test_ledger_without_scope_is_found_by_its_id(uris: dict[str, str]) -> None:
    assert {find_ledger(uri, LedgerId(7)).ledger.id for uri in uris.values()} == {7}


@sentence("35-04")
def test_the_scope_is_0_by_default(uris: dict[str, str]) -> None:
    assert LedgerId(7).scope == 0
    assert {show_last_entry(uri, "--ledger-id", "7") for uri in uris.values()} == {LAST[OLD]}


@sentence("35-05")
def test_ledgers_without_scope_are_listed_in_scope_0(uris: dict[str, str]) -> None:
    for uri in uris.values():
        ledger_records = [
            ledger_record for ledger_record in list_ledgers(uri) if not isinstance(ledger_record, tuple)
        ]
        assert [ledger_record.ledger for ledger_record in ledger_records] == [OLD]


@sentence("35-06")
def test_scope_and_id_together_identify_a_ledger(uris: dict[str, str]) -> None:
    assert OLD != SCOPED
    for uri in uris.values():
        lasts = {}
        for ledger in (OLD, SCOPED):
            metadata = find_ledger(uri, ledger).metadata
            assert metadata is not None
            lasts[ledger] = metadata.last_entry_id
        assert lasts == {OLD: 10, SCOPED: 11}


@sentence("35-07")
def test_the_qualified_name_is_both_halves_in_hexadecimal() -> None:
    assert LedgerId(42, scope=1).qualified_name == "0000000000000001000000000000002a"


@sentence("35-08")
def test_qualified_name_is_parsed_into_scope_and_id() -> None:
    assert LedgerId.parse("0000000000000001fffffffffffffffe") == LedgerId(-2, scope=1)


@sentence("35-09")
def test_findings_have_the_scope_of_their_ledger() -> None:
    assert {"scope_id", "ledger_id"} <= Finding.__dataclass_fields__.keys()


@sentence("35-10")
def test_ledger_show_finds_ledger_by_scope_and_id(uris: dict[str, str]) -> None:
    for uri in uris.values():
        assert show_last_entry(uri, "--ledger-id", "7", "--ledger-scope-id", "1") == LAST[SCOPED]


@sentence("35-11")
def test_every_command_that_names_a_ledger_takes_a_scope() -> None:
    assert commands_with("--ledger-scope-id") == commands_with("--ledger-id") | {"ledger list"}
    assert {"ledger show", "explain ledger"} <= commands_with("--ledger-id")


@sentence("35-12")
def test_every_command_that_names_a_ledger_takes_the_qualified_name() -> None:
    assert commands_with("--ledger-qualified-name") == commands_with("--ledger-id")


@sentence("35-13")
def test_ledger_show_accepts_the_qualified_name(uris: dict[str, str]) -> None:
    for uri in uris.values():
        for ledger, last in LAST.items():
            assert show_last_entry(uri, "--ledger-qualified-name", ledger.qualified_name) == last


@sentence("35-14")
def test_listing_contains_only_requested_scope(uris: dict[str, str]) -> None:
    for uri in uris.values():
        assert list_ids(uri, "--ledger-scope-id", "1") == [("1", "7")]


@sentence("35-15")
def test_listing_without_scope_contains_scope_0(uris: dict[str, str]) -> None:
    for uri in uris.values():
        assert list_ids(uri) == [("0", "7")]


@sentence("35-16")
def test_protocol_version_2_fails_other_scopes_as_illegal_op() -> None:
    assert unaskable_scope_reason(0) is None
    reason = unaskable_scope_reason(1)
    assert reason is not None
    assert reason.startswith("ILLEGAL_OP: scope 1: protocol version 2 has no scope")


@sentence("35-17")
def test_requests_of_version_3_omit_scope_because_field_number_is_unassigned() -> None:
    assert "BP-35 assigns no field number to the scope in version 3" in str(unaskable_scope_reason(1))
    # Ledger 99 and no other field: a bookie takes it for that of scope 0.
    assert list_request(7, 99).hex().endswith("e206020863")


@sentence("35-18")
def test_ids_may_be_the_two_halves_of_a_uuid(uris: dict[str, str]) -> None:
    uuid = UUID("f7a1b0c2-4f89-41d3-9a0c-0305e82c3301")
    halves = [int.from_bytes(half, "big", signed=True) for half in (uuid.bytes[:8], uuid.bytes[8:])]
    assert LedgerId(halves[1], scope=halves[0]) == UUID_LEDGER
    for uri in uris.values():
        assert find_ledger(uri, UUID_LEDGER).ledger == UUID_LEDGER


@sentence("35-19")
def test_every_store_finds_a_ledger_by_scope_and_id(uris: dict[str, str]) -> None:
    for uri in uris.values():
        assert find_ledger(uri, SCOPED).ledger == SCOPED


@sentence("35-20")
def test_zookeeper_path_of_scoped_ledger_contains_scope_and_id() -> None:
    assert ledger_path.to_scope_id_path(SCOPED) == "scopes/0000/0000/0000/0001/0000/0000/0000/L0007"


@sentence("35-21")
def test_scope_0_stays_in_the_long_hierarchical_layout() -> None:
    long = LayoutKind.LONG_HIERARCHICAL
    assert path_of(long, OLD) == ledger_path.LONG_HIERARCHICAL.to_path(7) == "000/0000/0000/0000/L0007"


@sentence("35-22")
def test_nonzero_scopes_use_separate_parent_path() -> None:
    for layout in LayoutKind:
        path = path_of(layout, SCOPED)
        assert path.startswith("ledgers/" if layout is LayoutKind.ETCD else "scopes/")


@sentence("35-23")
def test_etcd_key_contains_scope_and_id() -> None:
    assert etcd.to_path(SCOPED) == "ledgers/00000000-0000-0001-0000-000000000007"
    assert etcd.to_path(OLD) == "ledgers/00000000-0000-0000-0000-000000000007"


@sentence("35-24")
def test_scoped_paths_have_more_znode_levels() -> None:
    levels = ledger_path.to_scope_id_path(SCOPED).count("/")
    assert levels > ledger_path.LONG_HIERARCHICAL.to_path(7).count("/")
