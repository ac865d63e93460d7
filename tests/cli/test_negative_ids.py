"""Ledger ids below 0: etcd has keys for them, ZooKeeper has no path; none is parsed as an option."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main

DATA = Path(__file__).parents[1] / "data"
QUALIFIED = "0000000000000000fffffffffffffff9"


def show(uri: str, *flags: str) -> Result:
    return CliRunner().invoke(main, ["ledger", "show", "--metadata", uri, *flags])


@pytest.mark.parametrize(
    "flags", [("--ledger-id", "-7"), ("--ledger-id=-7",), ("--ledger-qualified-name", QUALIFIED)]
)
def test_an_id_below_0_that_etcd_has_is_shown(flags: tuple[str, ...], tmp_path: Path) -> None:
    text = gzip.decompress((DATA / "etcd" / "metadata.jsonl.gz").read_bytes()).decode()
    template = next(row for row in map(json.loads, text.splitlines()) if "/ledgers/0" in row["path"])
    path = f"/bk/cluster1/ledgers/{UUID(QUALIFIED)}"
    record = template | {"path": path, "key": base64.b64encode(path.encode()).decode()}
    (tmp_path / "dump").write_text(f"{text}{json.dumps(record)}\n")
    done = show(f"dump://{tmp_path}/dump?root=/bk/cluster1", *flags)
    assert done.exit_code == 0, done.output
    ledger = json.loads(done.stdout)
    assert (ledger["ledger_id"], ledger["ledger_qualified_name"], ledger["path"]) == ("-7", QUALIFIED, path)


@pytest.mark.parametrize(("corpus", "layout"), [("flat-v1", "flat"), ("interleaved-hier", "hierarchical")])
def test_an_id_below_0_has_no_place_in_zookeeper(corpus: str, layout: str, tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes((DATA / corpus / "metadata.jsonl.gz").read_bytes())
    done = show(f"dump://{tmp_path}/dump", "--ledger-id", "-7")
    assert done.exit_code == 2
    assert f"has no ledger -7: layout {layout} has no place for ids below 0" in done.stderr
