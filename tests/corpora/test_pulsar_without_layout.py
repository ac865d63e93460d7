"""Pulsar's stores have no LAYOUT znode: this makes nothing unconfirmed, and no message names it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.keys.ledger_tree import LayoutKind
from auditor.model.options import AuditOptions
from auditor.model.run_facts import RemarkKind
from auditor.reports.doctor import AnswerState
from auditor.sources.metadata.stores import choose_layout, open_store
from tests.corpora.audited import RunWithTables, TableKeepingAudit
from tests.doctor.diagnosed import diagnose
from tests.sources.owners.pulsar_stores import zookeeper_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH = re.compile(r"(?<![\w:/.])/[\w/<>%.-]+")


@dataclass(frozen=True)
class Dump:
    """The dump of a real Pulsar's store, as lines."""

    file: Path
    lines: list[str]

    @property
    def uri(self) -> str:
        return f"dump://{self.file}"

    def paths(self) -> set[str]:
        return {json.loads(line)["path"] for line in self.lines if line.endswith("}")}

    def without(self, *starts: str) -> Dump:
        """Write the file again without the records at these paths and below."""
        places = tuple(f'{{"path": "{start}' for start in starts)
        return self.write([line for line in self.lines if not line.startswith(places)])

    def damage(self, index: int) -> Dump:
        """Write the file again with a record whose path and value cannot be read."""
        return self.write([*self.lines[:index], self.lines[index][:20], *self.lines[index + 1 :]])

    def write(self, lines: list[str]) -> Dump:
        self.file.write_text("".join(f"{line}\n" for line in lines))
        return Dump(self.file, lines)


@pytest.fixture
def dump(tmp_path: Path) -> Dump:
    file = zookeeper_dump(tmp_path / "pulsar.jsonl")
    lines = sorted(file.read_text().splitlines())
    # INSTANCEID comes last: a dump that ends with a bookie may lack more of them.
    last = [line for line in lines if line.startswith('{"path": "/ledgers/INSTANCEID"')]
    other_lines = [line for line in lines if line not in last]
    return Dump(file, [*other_lines, *last]).without("/ledgers/LAYOUT")


def audited(spark: SparkSession, dump: Dump, out: Path) -> RunWithTables:
    audit = TableKeepingAudit(dump.uri, [], str(out), AuditOptions(owner_grace=0.0))
    return RunWithTables(audit.run(spark), out, audit.tables)


def test_layout_of_a_pulsar_store_is_hierarchical_without_layout_znode(dump: Dump) -> None:
    store = open_store(dump.uri)
    nodes = store.cluster()
    assert nodes.damage is None
    assert choose_layout(store, nodes) == (
        LayoutKind.HIERARCHICAL,
        "no LAYOUT znode, as in every store of Pulsar: the layout is hierarchical",
    )


def _without_topics(dump: Dump) -> Dump:
    return dump.without("/managed-ledgers", "/schemas", "/pulsar")


def _without_bookies(dump: Dump) -> Dump:
    return dump.without("/ledgers/available", "/ledgers/cookies")


@pytest.mark.parametrize("change", [_without_topics, _without_bookies])
def test_layout_is_assumed_when_topics_or_bookies_are_missing(
    change: Callable[[Dump], Dump], dump: Dump
) -> None:
    store = open_store(change(dump).uri)
    kind, reason = choose_layout(store, store.cluster())
    assert (kind, reason) == (LayoutKind.HIERARCHICAL, "no LAYOUT znode: the layout hierarchical is assumed")


def test_doctor_accepts_a_pulsar_store_without_layout_znode(dump: Dump) -> None:
    lines = [line for line in diagnose(dump.uri).lines if line.topic == "store"]
    states = {line.name: line.state for line in lines}
    assert states["layout"] is AnswerState.OK
    assert "end" not in states


def test_audit_without_layout_has_no_notice_and_confirms_owner_dangling(
    dump: Dump, spark: SparkSession, tmp_path: Path
) -> None:
    run = audited(spark, dump.without("/ledgers/idgen"), tmp_path / "run")
    assert RemarkKind.LAYOUT_ASSUMED not in {remark["kind"] for remark in run.report.run.remarks}
    assert run.tables.cluster.layout_known
    assert not run.tables.cluster.looks_unused, "its ledgers show that the store is in use"
    assert run.report.run.in_doubt is None
    dangling = [row["confidence"] for row in run.findings_of("owner-dangling")]
    assert dangling
    assert set(dangling) == {"confirmed"}


def test_store_without_ledgers_looks_unused(dump: Dump, spark: SparkSession, tmp_path: Path) -> None:
    run = audited(spark, dump.without("/ledgers/idgen", "/ledgers/0"), tmp_path / "run")
    assert run.tables.cluster.looks_unused


def test_owner_messages_name_only_paths_of_the_store(dump: Dump, spark: SparkSession, tmp_path: Path) -> None:
    damaged = dump.without("/pulsar").damage(50)
    run = audited(spark, damaged, tmp_path / "run")
    messages = [row["message"] for row in run.findings() if row["id"].startswith("owner")]
    unread = [
        row["message"] for row in run.findings_of("owner-unreadable") if "line at byte" in row["message"]
    ]
    assert [message.partition(":")[0] for message in unread] == ["/managed-ledgers"]
    named_paths = {path.rstrip(".") for message in messages for path in PATH.findall(message)}
    assert named_paths - {str(dump.file)} <= {*damaged.paths(), "/managed-ledgers", "/schemas"}
