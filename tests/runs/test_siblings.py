"""Tests of the one rule for which runs in the same directory belong to one cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from auditor.audit import changes as comparing
from auditor.audit.earlier_run import find_earlier_run
from auditor.audit.run_store import RunStore
from auditor.errors import RunError, UsageError
from auditor.model.options import AuditOptions
from auditor.model.report import Cluster, Report
from auditor.notebook.run import open_run
from auditor.reports import history as history_table
from auditor.runs import directory as run_directory
from auditor.runs import history, run_index
from auditor.runs import siblings as run_siblings
from auditor.runs.gather_html import page_of
from auditor.runs.history import RunDifference
from auditor.runs.siblings import are_same_cluster, find_last_complete, find_siblings
from auditor.sources.file_systems import parent_of
from tests.made_runs import made_run
from tests.reports.samples import coverage, report

EAST, WEST = (Cluster(None, f"dump:///saved/{name}.jsonl", "flat") for name in ("here", "there"))
"""Two clusters without an instance id."""


def run_of(cluster: Cluster, finished: int, complete: bool = True) -> Report:
    run_report = replace(report([], (), coverage(complete), changes=None), cluster=cluster)
    return replace(run_report, run=replace(run_report.run, finished=finished))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with runs of two clusters. The newest run of one cluster is incomplete."""
    made_run(tmp_path / "before", report=run_of(EAST, 1))
    made_run(tmp_path / "other", report=run_of(WEST, 2))
    made_run(tmp_path / "now", report=run_of(EAST, 3, complete=False))
    for name in ("before", "other", "now"):
        (tmp_path / name / "tables" / "changes" / "_SUCCESS").touch()
    return tmp_path


def test_all_readers_of_a_directory_separate_clusters_without_instance_id(runs: Path) -> None:
    newest_run = open_run(runs / "now")
    path = str(runs / "now")
    assert [run_path for run_path, _ in find_siblings(path, EAST)] == [f"{runs}/before", path]
    assert find_last_complete(path, newest_run.report) == 1
    assert newest_run.frames.history()["run"].to_list() == ["before", "now"]
    page = "".join(page_of(newest_run))
    assert "<bdi>before</bdi>" in page
    assert "<bdi>other</bdi>" not in page
    previous = history.find_sibling_runs(str(runs / "new"), EAST).newest(9).run
    assert previous is not None
    assert previous.name == "now"
    assert find_earlier_run("last", run_store(str(runs / "new")), EAST).name == "before"


def test_comparisons_separate_clusters_without_instance_id(runs: Path, tmp_path: Path) -> None:
    assert "the runs belong to 2 clusters" in history_table.text(history.history(runs).runs)
    this_run, other_run = str(runs / "now"), str(runs / "other")
    [warning, *_] = RunDifference(this_run, other_run).summary.warnings
    assert warning.startswith(f"these are runs of two clusters, {EAST.name} and {WEST.name}: ")
    options = AuditOptions(suppressions=str(tmp_path / "suppressions.toml"))
    with pytest.raises(UsageError, match=f"is a run of cluster {WEST.name}; this cluster is {EAST.name}"):
        comparing._open_baseline(other_run, options, EAST)
    assert comparing._open_baseline(this_run, options, EAST).path == this_run


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        pytest.param(replace(EAST, instance_id="a"), replace(WEST, instance_id="a"), True, id="one id"),
        pytest.param(replace(EAST, instance_id="a"), replace(EAST, instance_id="b"), False, id="two ids"),
        pytest.param(replace(EAST, instance_id="a"), EAST, False, id="one has none"),
        pytest.param(EAST, replace(EAST, layout="hierarchical"), True, id="one URI"),
        pytest.param(EAST, WEST, False, id="two URIs"),
    ],
)  # fmt: skip
def test_cluster_is_identified_by_instance_id_or_uri(first: Cluster, second: Cluster, same: bool) -> None:
    assert are_same_cluster(first, second) == are_same_cluster(second, first) == same


def run_store(path: str) -> RunStore:
    class Memory:
        """A store that keeps no facts and knows only the path of its run."""

        directory = type("Run", (), {"path": path})

        def pin_fact(self, name: str, value: Any) -> Any:
            return value

    return Memory()  # type: ignore[return-value]


@pytest.fixture
def bucket(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let ``s3://bucket`` show the directory of `runs`, and return that directory."""

    def files_of(path: str) -> tuple[Any, str]:
        scheme, _, tail = path.partition("://")
        name, _, below = tail.partition("/")
        assert (scheme, name) == ("s3", "bucket"), path
        return fs.SubTreeFileSystem(str(runs.parent), fs.LocalFileSystem()), f"{runs.name}/{below}".rstrip(
            "/"
        )

    for module in (run_siblings, run_index, run_directory, history):
        monkeypatch.setattr(module, "run_files", files_of)
    return runs


def test_runs_at_the_top_of_a_bucket_are_siblings(bucket: Path) -> None:
    assert [run_path for run_path, _ in find_siblings("s3://bucket/new", EAST)] == [
        "s3://bucket/before",
        "s3://bucket/now",
    ]
    newest_run = open_run("s3://bucket/now")
    assert find_last_complete(newest_run.path, newest_run.report) == 1
    assert newest_run.frames.history()["run"].to_list() == ["before", "now"]
    previous = history.find_sibling_runs("s3://bucket/new", EAST).newest(9)
    assert previous.notes == ()
    assert previous.run is not None
    assert previous.run.path == "s3://bucket/now"


def test_run_that_is_a_whole_bucket_has_no_siblings(bucket: Path) -> None:
    assert list(find_siblings("s3://bucket", EAST)) == []
    assert "root of a file system" in history.find_sibling_runs("s3://bucket", EAST).newest(9).notes[0]
    since = find_earlier_run("last", run_store("s3://bucket"), EAST)
    assert (since.path, len(since.notes)) == (None, 1)
    assert find_last_complete("s3://bucket", run_of(EAST, 3, complete=False)) is None


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("/runs/today", "/runs"),
        ("/today", "/"),
        ("/", None),
        ("s3://bucket/a/b/", "s3://bucket/a"),
        ("s3://bucket/a", "s3://bucket"),
        ("s3://bucket/", None),
        ("hdfs://name:8020/runs/a", "hdfs://name:8020/runs"),
        ("hdfs:///a", "hdfs:///"),
        ("file:///a/b", "file:///a"),
    ],
)
def test_parent_of_a_run_path_is_its_directory_or_none(path: str, parent: str | None) -> None:
    assert parent_of(path) == parent


def test_relative_run_path_uses_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parent_of("now") == parent_of("./now/") == str(tmp_path)
    made_run(tmp_path / "now", report=run_of(EAST, 1))
    assert [run_path for run_path, _ in find_siblings("now", EAST)] == [f"{tmp_path}/now"]


@pytest.mark.parametrize("root", ["/", "file:///"])
def test_the_root_of_a_file_system_is_listed_as_a_directory(root: str) -> None:
    assert f"{root}etc" in run_index.directories_with("passwd", root)


def test_unreadable_report_is_listed_with_its_error(runs: Path) -> None:
    (runs / "other" / "report.json").write_text("{")
    siblings = dict(find_siblings(str(runs / "now"), EAST))
    assert isinstance(siblings[f"{runs}/other"], RunError)
    assert len(siblings) == 3
