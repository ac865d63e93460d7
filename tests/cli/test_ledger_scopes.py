"""``bkaudit ledger`` on scopes other than 0 in ZooKeeper: running, its files, and a dump."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from auditor.model.ledger_id import LedgerId
from tests.cli.test_doors import bkaudit
from tests.corpora.cluster import Cluster
from tests.corpora.generator import stored

BOOKIES = ("a:3181", "b:3181", "c:3181")
SAME_ID = [LedgerId(7), LedgerId(7, scope=1), LedgerId(7, scope=-1)]
OF_SCOPE_1 = [LedgerId(7, scope=1), LedgerId(-2, scope=1)]
AS_UUID = "f7a1b0c2-4f89-41d3-9a0c-0305e82c3301"
OF_UUID = LedgerId.parse(AS_UUID)  # both halves are negative, the second as that of every random UUID is
ODD = {
    "/ledgers/scopes/odd/L0001": "any",
    "/ledgers/scopes/0000/0000/0000/0001/0000/0000/0000/L2": "1",
}


def last_entry(ledger: LedgerId) -> int:
    return 10 + ledger.scope % 7


def cluster() -> Cluster:
    corpus = Cluster(layout="longhierarchical")
    corpus.ledger(7, {0: BOOKIES}, (3, 2), last_entry(LedgerId(7)))
    for ledger in {*SAME_ID[1:], *OF_SCOPE_1, OF_UUID}:
        corpus.ledger(ledger, {0: BOOKIES}, (3, 2), last_entry(ledger))
    for path in ODD:
        corpus.node(path, b"odd")
    return corpus


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the URIs of one tree: a dump, logs without a snapshot, a snapshot, and a running server."""
    with stored(cluster(), tmp_path_factory.mktemp("scopes"), *KINDS) as stores:
        yield stores


KINDS = ("zk-dump", "zk-logs", "zk-snapshot", "zk-live")
STORES = pytest.mark.parametrize("kind", KINDS)


def ledger_of(shown: dict[str, Any]) -> LedgerId:
    return LedgerId(int(shown["ledger_id"]), int(shown["scope_id"]))


@STORES
@pytest.mark.parametrize("scope", [0, 1, -1, 2, OF_UUID.scope])
def test_a_listing_is_of_one_scope(kind: str, scope: int, uris: dict[str, str]) -> None:
    options = ("--ledger-scope-id", str(scope)) if scope else ()
    outcome = bkaudit("ledger", "list", "--metadata", uris[kind], *options)
    shown = [json.loads(line) for line in outcome.stdout.splitlines()]
    ledgers = {ledger for ledger in (*SAME_ID, *OF_SCOPE_1, OF_UUID) if ledger.scope == scope}
    assert {ledger_of(row): row["metadata"]["last_entry_id"] for row in shown} == {
        ledger: last_entry(ledger) for ledger in ledgers
    }
    assert outcome.exit_code == 3
    assert {path for path in ODD if path in outcome.stderr} == {
        path for path, owner_scope in ODD.items() if owner_scope in ("any", str(scope))
    }


@STORES
def test_a_ledger_is_shown_by_its_qualified_name(kind: str, uris: dict[str, str]) -> None:
    for ledger in (*SAME_ID, *OF_SCOPE_1, OF_UUID):
        names = (
            ("--ledger-qualified-name", ledger.qualified_name),
            ("--ledger-id", str(ledger.id), "--ledger-scope-id", str(ledger.scope)),
        )
        for name in names:
            outcome = bkaudit("ledger", "show", "--metadata", uris[kind], *name)
            assert outcome.exit_code == 0, outcome.output
            shown = json.loads(outcome.stdout)
            assert (ledger_of(shown), shown["metadata"]["last_entry_id"]) == (ledger, last_entry(ledger))
            assert shown["ledger_qualified_name"] == ledger.qualified_name
    outcome = bkaudit("ledger", "show", "--metadata", uris[kind], "--ledger-qualified-name", AS_UUID)
    assert ledger_of(json.loads(outcome.stdout)) == OF_UUID
    assert OF_UUID.scope < 0
    assert OF_UUID.id < 0
