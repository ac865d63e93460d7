"""Which runs lie beside one another and are of one cluster: one rule, whoever asks."""

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

HERE, THERE = (Cluster(None, f"dump:///saved/{name}.jsonl", "flat") for name in ("here", "there"))
"""Two clusters without an instance id."""


def run_of(cluster: Cluster, finished: int, complete: bool = True) -> Report:
    made = replace(report([], (), coverage(complete), changes=None), cluster=cluster)
    return replace(made, run=replace(made.run, finished=finished))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Runs of two clusters in one directory; the newest of the one is not complete."""
    made_run(tmp_path / "before", report=run_of(HERE, 1))
    made_run(tmp_path / "other", report=run_of(THERE, 2))
    made_run(tmp_path / "now", report=run_of(HERE, 3, complete=False))
    for name in ("before", "other", "now"):
        (tmp_path / name / "tables" / "changes" / "_SUCCESS").touch()
    return tmp_path


def test_every_reader_of_a_directory_keeps_clusters_without_an_instance_id_apart(runs: Path) -> None:
    now = open_run(runs / "now")
    path = str(runs / "now")
    assert [each for each, _ in find_siblings(path, HERE)] == [f"{runs}/before", path]
    assert find_last_complete(path, now.report) == 1
    assert now.frames.history()["run"].to_list() == ["before", "now"]
    page = "".join(page_of(now))
    assert "<bdi>before</bdi>" in page
    assert "<bdi>other</bdi>" not in page
    found = history.find_sibling_runs(str(runs / "new"), HERE).newest(9).run
    assert found is not None
    assert found.name == "now"
    assert find_earlier_run("last", run_store(str(runs / "new")), HERE).name == "before"


def test_whoever_compares_two_runs_keeps_them_apart_too(runs: Path, tmp_path: Path) -> None:
    assert "the runs belong to 2 clusters" in history_table.text(history.history(runs).runs)
    here, there = str(runs / "now"), str(runs / "other")
    [warning, *_] = RunDifference(here, there).summary.warnings
    assert warning.startswith(f"these are runs of two clusters, {HERE.name} and {THERE.name}: ")
    options = AuditOptions(suppressions=str(tmp_path / "suppressions.toml"))
    with pytest.raises(UsageError, match=f"is a run of cluster {THERE.name}; this cluster is {HERE.name}"):
        comparing._open_baseline(there, options, HERE)
    assert comparing._open_baseline(here, options, HERE).path == here


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(replace(HERE, instance_id="a"), replace(THERE, instance_id="a"), True, id="one id"),
        pytest.param(replace(HERE, instance_id="a"), replace(HERE, instance_id="b"), False, id="two ids"),
        pytest.param(replace(HERE, instance_id="a"), HERE, False, id="one has none"),
        pytest.param(HERE, replace(HERE, layout="hierarchical"), True, id="one URI"),
        pytest.param(HERE, THERE, False, id="two URIs"),
    ],
)  # fmt: skip
def test_an_instance_id_names_a_cluster_and_else_its_uri(one: Cluster, other: Cluster, same: bool) -> None:
    assert are_same_cluster(one, other) == are_same_cluster(other, one) == same


def run_store(path: str) -> RunStore:
    class Memory:
        """A store that keeps no facts, and only says where its run is."""

        directory = type("Run", (), {"path": path})

        def pin_fact(self, name: str, value: Any) -> Any:
            return value

    return Memory()  # type: ignore[return-value]


@pytest.fixture
def bucket(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of `runs` is what ``s3://bucket`` shows."""

    def files_of(path: str) -> tuple[Any, str]:
        scheme, _, rest = path.partition("://")
        name, _, below = rest.partition("/")
        assert (scheme, name) == ("s3", "bucket"), path
        return fs.SubTreeFileSystem(str(runs.parent), fs.LocalFileSystem()), f"{runs.name}/{below}".rstrip(
            "/"
        )

    for module in (run_siblings, run_index, run_directory, history):
        monkeypatch.setattr(module, "run_files", files_of)
    return runs


def test_runs_at_the_top_of_a_bucket_are_siblings(bucket: Path) -> None:
    assert [each for each, _ in find_siblings("s3://bucket/new", HERE)] == [
        "s3://bucket/before",
        "s3://bucket/now",
    ]
    now = open_run("s3://bucket/now")
    assert find_last_complete(now.path, now.report) == 1
    assert now.frames.history()["run"].to_list() == ["before", "now"]
    found = history.find_sibling_runs("s3://bucket/new", HERE).newest(9)
    assert found.notes == ()
    assert found.run is not None
    assert found.run.path == "s3://bucket/now"


def test_a_run_that_is_a_whole_bucket_has_nothing_beside_it(bucket: Path) -> None:
    assert list(find_siblings("s3://bucket", HERE)) == []
    assert "root of a file system" in history.find_sibling_runs("s3://bucket", HERE).newest(9).notes[0]
    since = find_earlier_run("last", run_store("s3://bucket"), HERE)
    assert (since.path, len(since.notes)) == (None, 1)
    assert find_last_complete("s3://bucket", run_of(HERE, 3, complete=False)) is None


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
def test_a_run_lies_in_a_directory_or_at_the_top(path: str, parent: str | None) -> None:
    assert parent_of(path) == parent


def test_a_relative_run_lies_where_the_caller_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parent_of("now") == parent_of("./now/") == str(tmp_path)
    made_run(tmp_path / "now", report=run_of(HERE, 1))
    assert [each for each, _ in find_siblings("now", HERE)] == [f"{tmp_path}/now"]


@pytest.mark.parametrize("root", ["/", "file:///"])
def test_the_root_of_a_file_system_is_listed_as_a_directory(root: str) -> None:
    assert f"{root}etc" in run_index.directories_with("passwd", root)


def test_a_report_that_cannot_be_read_comes_with_its_reason(runs: Path) -> None:
    (runs / "other" / "report.json").write_text("{")
    found = dict(find_siblings(str(runs / "now"), HERE))
    assert isinstance(found[f"{runs}/other"], RunError)
    assert len(found) == 3
