"""Dumps of etcd: damage is a gap at its key, or at the scope if any key may be damaged."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.errors import StoreError
from auditor.sources.metadata.stores import open_store
from tests.sources.etcd_saved import ledgers_of, nodes_of

LEDGER = "/bk/ledgers/00000000-0000-0000-0000-000000000001"


def line(path: str, **changes: Any) -> bytes:
    record = {"path": path, "key": b64encode(path.encode()).decode(), "data": "YQ==", "createRevision": 2}
    return json.dumps(record | {"modRevision": 3, "version": 1, "lease": 0} | changes).encode() + b"\n"


@pytest.mark.parametrize(
    ("damaged", "path"),
    [
        pytest.param(b"{not json\n", "/bk", id="not JSON"),
        pytest.param(line(LEDGER, key="L2E="), "/bk", id="another key"),
        pytest.param(line(LEDGER, key=None), LEDGER, id="no key"),
        pytest.param(line(LEDGER, data="%"), LEDGER, id="no base64"),
        pytest.param(line(LEDGER, modRevision=2**63), LEDGER, id="beyond int64"),
        pytest.param(line(LEDGER, lease=True), LEDGER, id="a boolean"),
        pytest.param(line(LEDGER, createRevision=None), LEDGER, id="no revision"),
    ],
)
def test_a_damaged_line_is_a_gap_and_its_neighbours_are_read(
    damaged: bytes, path: str, tmp_path: Path
) -> None:
    second_ledger = LEDGER[:-1] + "2"
    (tmp_path / "dump").write_bytes(line("/bk") + damaged + line(second_ledger) + line("/bk/layout"))
    store = open_store(f"dump://{tmp_path}/dump?root=/bk")
    tree_keys, gaps = ledgers_of(store, 1)
    assert tree_keys == {second_ledger: (b"a", 3, 0)}
    assert [(where, f"at byte {len(line('/bk'))}:" in reason) for where, reason in gaps] == [(path, True)]
    assert set(nodes_of(store)) == {"/bk/layout"}
    assert [where for where, _ in store.cluster().gaps] == ([path] if path == "/bk" else [])


def test_first_readable_record_decides_the_store_of_a_dump(tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"?\n\n" + line("/other") + line(LEDGER))
    store = open_store(f"dump://{tmp_path}/dump?root=/bk")
    assert not store.keeps_times
    assert set(ledgers_of(store)[0]) == {LEDGER}
    (tmp_path / "dump").write_bytes(line("/other"))
    with pytest.raises(StoreError, match="there is no BookKeeper cluster below /bk"):
        open_store(f"dump://{tmp_path}/dump?root=/bk").cluster()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_changed_byte_hides_at_most_its_own_key_and_never_silently(
    tmp_path: Path, data: st.DataObject
) -> None:
    paths = [f"{LEDGER[:-2]}{n:02x}" for n in range(20)]
    lines = [line("/bk"), *map(line, paths)]
    hit = data.draw(st.integers(1, 20))
    good = bytearray(b"".join(lines))
    offset = sum(map(len, lines[:hit])) + data.draw(st.integers(0, len(lines[hit]) - 2))
    good[offset] = data.draw(st.integers(0, 255).filter(lambda byte: byte != 10))
    (tmp_path / "dump").write_bytes(good)
    store = open_store(f"dump://{tmp_path}/dump?root=/bk")
    tree_keys, gaps = ledgers_of(store, 3)
    assert set(paths) - set(tree_keys) <= ({paths[hit - 1]} if gaps or set(tree_keys) - set(paths) else set())
