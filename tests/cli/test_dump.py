"""``bkaudit dump``: an audit of a dump has the same findings as an audit of the running store.

`tests.sources.metadata.dump.test_save` compares dumps of etcd field by field.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor import Audit
from auditor.cli.dump import _throttled_progress
from auditor.demo.sample import unpack_sample
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.run_facts import sentence_of
from auditor.sources.metadata.store import Znode
from tests.cli.test_doors import bkaudit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper")
    sample = unpack_sample(folder, 1_795_000_000_000)
    with EmbeddedZooKeeper(folder / "data") as server:
        server.load(
            Znode(path, data, 0, 0, 0, 0, 0, int(path in sample.ephemeral))
            for path, data in sample.znodes.items()
        )
        yield server


def test_audit_of_a_dump_finds_the_same_as_an_audit_of_zookeeper(
    zookeeper: EmbeddedZooKeeper, spark: SparkSession, tmp_path: Path
) -> None:
    live, file = f"zk://{zookeeper.hosts}/ledgers", tmp_path / "a.jsonl.gz"
    done = bkaudit("dump", live, str(file), "--without-secrets")
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert " records in " in done.stderr
    dump_report, live_report = (
        Audit(uri, [], str(tmp_path / name)).run(spark)
        for name, uri in (("of-dump", f"dump://{file}"), ("of-live", live))
    )
    assert dump_report.counts == live_report.counts
    findings = [
        {(finding.id, finding.ledger_id, finding.bookie_id, finding.confidence) for finding in run.findings}
        for run in (dump_report, live_report)
    ]
    assert findings[0] == findings[1]
    assert dump_report.counts["ghost-bookie"]
    assert "entries read from bookies" not in live_report.run.operations
    assert "listings asked of bookies" not in live_report.run.operations
    assert not any("the dump may be cut" in note for note in map(sentence_of, dump_report.run.remarks))


def test_dump_takes_its_store_from_defaults_and_writes_to_standard_output(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = f"zk://{zookeeper.hosts}/ledgers"
    monkeypatch.setenv("BKAUDIT_METADATA", live)
    piped = bkaudit("dump", "-", "-q")
    lines = [json.loads(line) for line in piped.stdout.splitlines()]
    assert (piped.exit_code, piped.stderr) == (0, "")
    assert lines[-1] == {"end": {"nodes": len(lines) - 2}}
    monkeypatch.delenv("BKAUDIT_METADATA")
    (tmp_path / "conf.toml").write_text(f'[clusters.prod]\nmetadata = "{live}"\n')
    saved = bkaudit(
        "dump", str(tmp_path / "a"), "--cluster", "prod", "--conf", str(tmp_path / "conf.toml"),
        "--without-owners",
    )  # fmt: skip
    assert saved.exit_code == 0
    assert len((tmp_path / "a").read_bytes().splitlines()) == len(lines)
    again = bkaudit("dump", live, str(tmp_path / "a"))
    assert (again.exit_code, "already exists" in again.stderr) == (2, True)


def test_wrong_usage_and_unreachable_servers_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    monkeypatch.delenv("BKAUDIT_METADATA", raising=False)
    nothing = bkaudit("dump", str(file))
    assert (nothing.exit_code, "--metadata: missing" in nothing.stderr) == (2, True)
    assert bkaudit("dump", "dump:///a", str(file)).exit_code == 2
    assert bkaudit("dump", "zk://h/ledgers", str(file), "more").exit_code == 2
    assert bkaudit("dump", "zk://127.0.0.1:1/ledgers", str(file), "--timeout", "1").exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_progress_line_is_printed_at_most_twice_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: clock_s)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    progress = _throttled_progress()
    for moment, records in ((10.0, 5), (31.0, 1200), (40.0, 2000)):
        clock_s = moment
        progress(records)
    assert isinstance(sys.stderr, io.StringIO)
    assert sys.stderr.getvalue() == "bkaudit: 1,200 records so far\n"


def test_missing_directory_is_reported_before_the_store_is_read(tmp_path: Path) -> None:
    done = bkaudit("dump", "zk://127.0.0.1:1/ledgers", str(tmp_path / "none" / "a.jsonl"))
    message = f"bkaudit: {tmp_path}/none: no such directory; create it, or choose another FILE\n"
    assert (done.exit_code, done.output) == (2, message)


def test_broken_link_is_not_overwritten(tmp_path: Path) -> None:
    link = tmp_path / "dump.jsonl"
    link.symlink_to(tmp_path / "nowhere")
    ended = bkaudit("dump", "zk://127.0.0.1:1/ledgers", str(link))
    assert (ended.exit_code, ended.stderr) == (
        2,
        f"bkaudit: {link}: already exists and is not overwritten; choose another FILE\n",
    )
    assert link.is_symlink()
