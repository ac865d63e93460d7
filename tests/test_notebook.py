"""The notebooks, as committed and as run by the interpreter that runs the tests."""

from __future__ import annotations

import gzip
import json
import os
import re
import tarfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from auditor.demo.sample import INSTANCE_ID, ROOT, owners_run, sample_run, show, unpack_sample
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from tests.servers.java import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[1]
NOTEBOOK = REPOSITORY / "notebooks" / "investigate.ipynb"
OWNERS_NOTEBOOK = REPOSITORY / "notebooks" / "owners.ipynb"
PULSAR = REPOSITORY / "tests" / "data" / "pulsar-a" / "zookeeper" / "version-2"
CELL_TIMEOUT_SECONDS = 600
"""For one cell: a loaded machine takes a minute to start Spark."""


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of runs like the one that ``bkaudit demo`` makes."""
    runs = tmp_path_factory.mktemp("demo") / "runs"
    shown = show(str(runs / "20261121T050000Z"), AuditOptions(), SilentProgress(), spark)
    assert shown.has_expected_findings
    return runs


@pytest.fixture(scope="module")
def executed(runs: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the notebook with outputs, run as docs/python.md describes: in a directory next to ``runs``."""
    return execute(NOTEBOOK, runs, wheel, tmp_path_factory.mktemp("kernel"))


@pytest.fixture(scope="module")
def owned(spark: SparkSession, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the owners notebook with its outputs, on the run that its first cell would make."""
    runs = tmp_path_factory.mktemp("pulsar") / "runs"
    run_path = owners_run(runs, spark)
    assert owners_run(runs) == run_path
    return execute(OWNERS_NOTEBOOK, runs, wheel, tmp_path_factory.mktemp("kernel"))


def execute(path: Path, runs: Path, wheel: Path, private: Path) -> Any:
    """Return a notebook with its outputs, run with an unpacked wheel in a directory next to ``runs``."""
    place = runs.parent / "notebooks"
    place.mkdir()
    # No directory of kernels: what is left is the kernel of this interpreter.
    kernels = KernelSpecManager(kernel_dirs=[])
    manager = AsyncKernelManager(
        kernel_name="python3", kernel_spec_manager=kernels, connection_file=str(private / "kernel.json")
    )
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_TIMEOUT_SECONDS,
        startup_timeout=CELL_TIMEOUT_SECONDS,
        resources={"metadata": {"path": place}},
    )
    own = {"PYTHONPATH": str(wheel), "IPYTHONDIR": str(private), "JDK_JAVA_OPTIONS": " ".join(SHORT_LIVED)}
    client.execute(env={**os.environ, **own})
    return notebook


def cell_output(notebook: Any, code: str, kind: str = "text/plain") -> str:
    """Return the output, as one type, of the only cell that contains this code."""
    [cell] = [part for part in notebook.cells if part.cell_type == "code" and code in part.source]
    [output] = [part for part in cell.outputs if part.output_type == "execute_result"]
    return str(output.data[kind])


@pytest.mark.parametrize("path", [NOTEBOOK, OWNERS_NOTEBOOK], ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path: Path) -> None:
    text = path.read_text("utf-8")
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    for number, cell in enumerate(notebook.cells):
        assert cell.id == f"cell-{number:02}"
        assert not cell.metadata
        assert cell.cell_type == "markdown" or (cell.outputs, cell.execution_count) == ([], None)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert text == nbformat.writes(notebook) + "\n"  # type: ignore[no-untyped-call]


def test_every_cell_of_the_notebook_runs(executed: Any) -> None:
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    streams = [output for cell in cells for output in cell.outputs if output.output_type == "stream"]
    assert not [stream.text for stream in streams if stream.name == "stdout"]


def test_the_notebook_begins_with_the_verdict(executed: Any, runs: Path) -> None:
    assert "NOT HEALTHY" in cell_output(executed, "open_run(", "text/html")
    assert str(sample_run(runs)).endswith("20261121T050000Z")


def test_notebook_outputs_about_findings_are_as_described(executed: Any) -> None:
    critical = cell_output(executed, "critical = ")
    assert critical.count("entry-lost") == 8
    assert (critical.count("instance-mismatch"), critical.count("metadata-suspect")) == (1, 1)
    about = cell_output(executed, "frames.findings_of(suspect)", "text/html")
    assert re.findall(r"<th>(\d+)</th>", about) == list("012345")
    bookie = cell_output(executed, "run.bookie(suspect)", "text/html")
    assert ">10.9.8.7:3181</td>" in bookie
    assert "width:300px" in bookie


def test_notebook_outputs_about_lost_ledgers_are_as_described(executed: Any) -> None:
    days = cell_output(executed, "run.frames.ledgers_by_day()")
    first, *later = [int(line.split()[2]) for line in days.splitlines() if re.match(r"20\d\d-", line)]
    assert first > 0
    assert sum(later) > 0
    lost = cell_output(executed, "WHERE c.class = 'entry-lost'")
    quorums = [int(line.split()[2]) for line in lost.splitlines() if re.match(r"\d+ +\d+ +\d+ ", line)]
    assert quorums == [1, 1, 1, 1, 2, 2, 2, 3]
    assert "XX..XX..XX..XX..XX" in cell_output(executed, "run.ledger(51)")
    no_copies = cell_output(executed, "copies[copies == 0]")
    assert [int(line.split()[0]) for line in no_copies.splitlines()[1:-1]] == [21, 25, 29, 33, 37]


def test_owners_notebook_shows_losses_and_leaks(owned: Any) -> None:
    cells = [cell for cell in owned.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    namespaces = cell_output(owned, 'owners("namespace")')
    assert {"fleet/telemetry", "shop/billing", "shop/orders"} <= set(re.findall(r"\w+/\w+", namespaces))
    assert {"fleet/telemetry/door", "shop/orders/catalog"} <= set(
        re.findall(r"\w+/\w+/\w+", cell_output(owned, "topics["))
    )
    lost = cell_output(owned, "dangling = ", "text/html")
    faults = json.loads(gzip.decompress((PULSAR.parents[1] / "oracle.json.gz").read_bytes()))["faults"]
    dangling = {fault["ledger"] for fault in faults if fault["expect"] == "owner-dangling"}
    # One is named only by an entry of a cursor's ledger: without the bookies' disks nobody sees it.
    assert {int(id) for id in re.findall(r"<td>(\d+)</td>", lost)} == dangling - {58}
    leaks = cell_output(owned, "run.leaks.totals()")
    unowned = [fault["ledger"] for fault in faults if fault["expect"] == "ledger-unowned"]
    assert f"ledgers={len(unowned)}, " in leaks
    assert "topic fleet/telemetry/route-plans" in cell_output(owned, "groupby")


def test_every_plot_of_the_notebook_is_an_image_with_alt_text(executed: Any) -> None:
    cells = [cell for cell in executed.cells if cell.cell_type == "code" and "run.plot." in cell.source]
    assert len(cells) >= 4
    assert all(cell.outputs[-1].data["image/png"] for cell in cells)
    alts = [cell.outputs[-1].metadata["image/png"]["alt"] for cell in cells]
    assert alts[0].startswith("Findings by check: ")
    assert ", entry-lost 8, " in alts[0]
    assert all(len(alt) > 20 for alt in alts)
    assert all('<img alt="' in cell.outputs[-1].data["text/html"] for cell in cells)


def test_sample_run_is_made_if_no_run_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_paths: list[str] = []
    monkeypatch.setattr("auditor.demo.sample.show", lambda out, *_: run_paths.append(out))
    assert sample_run(tmp_path / "runs") == run_paths[0]
    assert Path(run_paths[0]).parent == tmp_path / "runs"


def test_owners_sample_equals_files_written_by_pulsar() -> None:
    packed = files("auditor.demo") / "sample" / "pulsar-zookeeper.tar.gz"
    with packed.open("rb") as file, tarfile.open(fileobj=file) as archive:
        for name in archive.getnames():
            member = archive.extractfile(name)
            assert member is not None
            assert member.read() == (PULSAR.parent / name).read_bytes()


def test_sample_has_the_expected_instance_id(tmp_path: Path) -> None:
    assert unpack_sample(tmp_path, 0).znodes[f"{ROOT}/INSTANCEID"].decode() == INSTANCE_ID
