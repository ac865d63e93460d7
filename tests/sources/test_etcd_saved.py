"""A snapshot and a dump of a real etcd 3.4.23 cluster: both equal the server's and Java's answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.codecs.bookie import cookie
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.errors import StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import ClassifiedPath, LayoutKind, classify
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.ledger_rows import ledger_rows
from auditor.sources.metadata.store import Tree
from auditor.sources.metadata.stores import choose_layout, open_store
from tests.sources.etcd_saved import (
    SCOPE,
    corpus_keys,
    corpus_store,
    ledgers_of,
    nodes_of,
    oracle,
    unpack_file,
)

KINDS = ("snapshot", "dump")
LAST = 2**63 - 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part_count", [1, 4, 1000])
def test_every_key_is_read_once(kind: str, part_count: int, tmp_path: Path) -> None:
    store = corpus_store(kind, tmp_path)
    ledgers, gaps = ledgers_of(store, part_count)
    assert not gaps
    assert ledgers | nodes_of(store) == corpus_keys()
    assert all(path.startswith(f"{SCOPE}/ledgers/") for path in ledgers)
    assert store.parts(Tree.MARKS, LayoutKind.ETCD, part_count) == []
    assert sum(store.operations().values()) >= len(ledgers)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_store_reports_its_scan_time_revision_and_notes(kind: str, tmp_path: Path) -> None:
    store = corpus_store(kind, tmp_path)
    file = next(tmp_path.iterdir())
    os.utime(file, ns=(1_700_000_000_123_000_000,) * 2)
    cluster = store.cluster()
    assert cluster.scan_time == 1_700_000_000_123
    # The dump has the keys that are left; one that was made last was deleted.
    assert cluster.position == ("revision 86" if kind == "snapshot" else "revision 85")
    assert not cluster.gaps
    assert cluster.notes == ("etcd keeps no times and no under-replication marks",)
    assert (store.live, store.keeps_marks, store.keeps_times) == (False, False, False)
    assert choose_layout(store, cluster) == (LayoutKind.ETCD, "the layout key says etcd")


@pytest.mark.parametrize("kind", KINDS)
def test_cluster_keys_have_their_zookeeper_names(kind: str, tmp_path: Path) -> None:
    answers, nodes = oracle(), corpus_store(kind, tmp_path).cluster().nodes
    assert nodes["INSTANCEID"].data.decode() == answers["cookies"]["127.0.107.1:3181"]["instanceId"]
    for bookie, expected in answers["cookies"].items():
        decoded = cookie.decode(nodes[f"cookies/{bookie}"].data)
        assert (str(decoded.bookie_id), decoded.instance_id) == (bookie, expected["instanceId"])
    writable = {name for name in nodes if name.startswith("available/") and name.count("/") == 1}
    assert writable - {"available/readonly"} == {
        f"available/{bookie_id}" for bookie_id in answers["registration"]["writable"]
    }
    readonly = {f"available/readonly/{bookie_id}" for bookie_id in answers["registration"]["readOnly"]}
    assert {name for name in nodes if name.startswith("available/readonly/")} == readonly
    # Registrations go with the bookie's lease.
    assert all(nodes[name].ephemeral_owner for name in readonly)


@pytest.mark.parametrize("kind", KINDS)
def test_ledgers_equal_what_java_decodes(kind: str, tmp_path: Path) -> None:
    answers = oracle()
    ledgers, _ = ledgers_of(corpus_store(kind, tmp_path))
    listed = {etcd.from_path(path[len(SCOPE) + 1 :]) for path in ledgers}
    # Java's listing ends before the largest id.
    assert listed == {LedgerId(row) for row in [*answers["ledgersListed"], LAST]}
    for ledger, expected in answers["ledgers"].items():
        if "decoded" not in expected:
            assert expected["key"] not in ledgers  # deleted
            continue
        data, revision, _ = ledgers[expected["key"]]
        assert revision == int(expected["version"])
        decoded, java = ledger_metadata.parse(data), expected["decoded"]
        assert (decoded.state.name, decoded.last_entry_id, decoded.length) == (
            java["state"],
            java["lastEntryId"],
            java["length"],
        )
        assert [[row.first_entry_id, [str(b) for b in row.ensemble]] for row in decoded.segments] == [
            [row["firstEntryId"], row["ensemble"]] for row in java["segments"]
        ], ledger


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_their_scope_and_no_times(kind: str, tmp_path: Path) -> None:
    store = corpus_store(kind, tmp_path)
    rows = [
        row
        for part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, 2)
        for batch in store.read(part)
        for row in ledger_rows(batch, store.root, LayoutKind.ETCD).to_pylist()
    ]
    assert {row["ledger_id"] for row in rows} == {*oracle()["ledgersListed"], LAST}
    for row in rows:
        assert (row["status"], row["scope_id"], row["ctime"], row["mtime"]) == ("ok", 0, None, None)
        assert row["version"] == int(oracle()["ledgers"][str(row["ledger_id"])]["version"])


def test_scope_must_match_exactly(tmp_path: Path) -> None:
    file = unpack_file("etcd-snapshot.db", tmp_path)
    for scope in ("/bk/cluster", "/bk/cluster11", "/bk/cluster1/"):
        with pytest.raises(StoreError, match="there is no BookKeeper cluster below"):
            open_store(f"etcd-snapshot://{file}?scope={scope}").cluster()


@pytest.mark.parametrize("kind", KINDS)
def test_error_for_a_missing_scope_names_the_existing_cluster(kind: str, tmp_path: Path) -> None:
    corpus_store(kind, tmp_path)
    [file] = tmp_path.iterdir()
    scheme = "etcd-snapshot" if kind == "snapshot" else "dump"
    with pytest.raises(StoreError) as raised:
        open_store(f"{scheme}://{file}").cluster()
    assert str(raised.value) == (
        f"there is no BookKeeper cluster below /ledgers in {file}; a cluster is at "
        f"{scheme}://{file}?scope={SCOPE}"
    )
    store = open_store(f"{scheme}://{file}?scope={SCOPE}")
    assert nodes_of(store) == nodes_of(corpus_store(kind, tmp_path))


def test_every_java_key_is_its_ledger_except_negative_ids_in_scope_zero() -> None:
    # Java turns every id into a key and back. In scope 0, which servers write, a negative one is nobody's.
    for vector in oracle()["keyVectors"]:
        ledger, scope = vector["parsedLedgerId"], vector["parsedScopeId"]
        rel = vector["key"][len(vector["scope"]) + 1 :]
        read = classify(LayoutKind.ETCD, rel)
        if scope == 0 and ledger < 0:
            assert (read.kind, read.ledger_id) == ("malformed", None)
        else:
            assert read == ClassifiedPath("ledger", ledger, ledger, ledger, scope)
