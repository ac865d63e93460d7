"""The notebooks: as they are committed, and as they run, with the interpreter that runs the tests."""

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

HERE = Path(__file__).parents[1]
NOTEBOOK = HERE / "notebooks" / "investigate.ipynb"
OF_OWNERS = HERE / "notebooks" / "owners.ipynb"
PULSAR = HERE / "tests" / "data" / "pulsar-a" / "zookeeper" / "version-2"
LIMIT_S = 600
"""For one cell: a loaded machine takes a minute to start Spark."""


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of runs as ``bkaudit demo`` leaves one."""
    runs = tmp_path_factory.mktemp("demo") / "runs"
    shown = show(str(runs / "20261121T050000Z"), AuditOptions(), SilentProgress(), spark)
    assert shown.has_expected_findings
    return runs


@pytest.fixture(scope="module")
def executed(runs: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook with its outputs, run where docs/python.md says: in a directory beside ``runs``."""
    return execute(NOTEBOOK, runs, wheel, tmp_path_factory.mktemp("kernel"))


@pytest.fixture(scope="module")
def owned(spark: SparkSession, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook of owners with its outputs, on the run that its first cell would make."""
    runs = tmp_path_factory.mktemp("pulsar") / "runs"
    made = owners_run(runs, spark)
    assert owners_run(runs) == made
    return execute(OF_OWNERS, runs, wheel, tmp_path_factory.mktemp("kernel"))


def execute(path: Path, runs: Path, wheel: Path, private: Path) -> Any:
    """A notebook with its outputs, run with an unpacked wheel in a directory beside ``runs``."""
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
        timeout=LIMIT_S,
        startup_timeout=LIMIT_S,
        resources={"metadata": {"path": place}},
    )
    own = {"PYTHONPATH": str(wheel), "IPYTHONDIR": str(private), "JDK_JAVA_OPTIONS": " ".join(SHORT_LIVED)}
    client.execute(env={**os.environ, **own})
    return notebook


def shown(notebook: Any, code: str, kind: str = "text/plain") -> str:
    """What the one cell with this code in it shows, as one type."""
    [cell] = [each for each in notebook.cells if each.cell_type == "code" and code in each.source]
    [output] = [each for each in cell.outputs if each.output_type == "execute_result"]
    return str(output.data[kind])


@pytest.mark.parametrize("path", [NOTEBOOK, OF_OWNERS], ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_what_a_run_of_it_leaves(path: Path) -> None:
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
    said = [output for cell in cells for output in cell.outputs if output.output_type == "stream"]
    assert not [each.text for each in said if each.name == "stdout"]


def test_the_notebook_begins_with_the_verdict(executed: Any, runs: Path) -> None:
    assert "NOT HEALTHY" in shown(executed, "open_run(", "text/html")
    assert str(sample_run(runs)).endswith("20261121T050000Z")


def test_what_the_notebook_says_of_the_findings_is_so(executed: Any) -> None:
    critical = shown(executed, "critical = ")
    assert critical.count("entry-lost") == 8
    assert (critical.count("instance-mismatch"), critical.count("metadata-suspect")) == (1, 1)
    about = shown(executed, "frames.findings_of(suspect)", "text/html")
    assert re.findall(r"<th>(\d+)</th>", about) == list("012345")
    bookie = shown(executed, "run.bookie(suspect)", "text/html")
    assert ">10.9.8.7:3181</td>" in bookie
    assert "width:300px" in bookie


def test_what_the_notebook_says_of_the_lost_ledgers_is_so(executed: Any) -> None:
    days = shown(executed, "run.frames.ledgers_by_day()")
    first, *later = [int(line.split()[2]) for line in days.splitlines() if re.match(r"20\d\d-", line)]
    assert first > 0
    assert sum(later) > 0
    lost = shown(executed, "WHERE c.class = 'entry-lost'")
    quorums = [int(line.split()[2]) for line in lost.splitlines() if re.match(r"\d+ +\d+ +\d+ ", line)]
    assert quorums == [1, 1, 1, 1, 2, 2, 2, 3]
    assert "XX..XX..XX..XX..XX" in shown(executed, "run.ledger(51)")
    gone = shown(executed, "copies[copies == 0]")
    assert [int(line.split()[0]) for line in gone.splitlines()[1:-1]] == [21, 25, 29, 33, 37]


def test_the_notebook_of_owners_shows_who_loses_and_what_leaks(owned: Any) -> None:
    cells = [cell for cell in owned.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    namespaces = shown(owned, 'owners("namespace")')
    assert {"fleet/telemetry", "shop/billing", "shop/orders"} <= set(re.findall(r"\w+/\w+", namespaces))
    assert {"fleet/telemetry/door", "shop/orders/catalog"} <= set(
        re.findall(r"\w+/\w+/\w+", shown(owned, "topics["))
    )
    lost = shown(owned, "dangling = ", "text/html")
    known = json.loads(gzip.decompress((PULSAR.parents[1] / "oracle.json.gz").read_bytes()))["faults"]
    dangling = {each["ledger"] for each in known if each["expect"] == "owner-dangling"}
    # One is named only by an entry of a cursor's ledger: without the bookies' disks nobody sees it.
    assert {int(id) for id in re.findall(r"<td>(\d+)</td>", lost)} == dangling - {58}
    leaks = shown(owned, "run.leaks.totals()")
    unowned = [each["ledger"] for each in known if each["expect"] == "ledger-unowned"]
    assert f"ledgers={len(unowned)}, " in leaks
    assert "topic fleet/telemetry/route-plans" in shown(owned, "groupby")


def test_every_plot_of_the_notebook_is_a_picture(executed: Any) -> None:
    cells = [cell for cell in executed.cells if cell.cell_type == "code" and "run.plot." in cell.source]
    assert len(cells) >= 4
    assert all(cell.outputs[-1].data["image/png"] for cell in cells)
    alts = [cell.outputs[-1].metadata["image/png"]["alt"] for cell in cells]
    assert alts[0].startswith("Findings by check: ")
    assert ", entry-lost 8, " in alts[0]
    assert all(len(alt) > 20 for alt in alts)
    assert all('<img alt="' in cell.outputs[-1].data["text/html"] for cell in cells)


def test_a_run_of_the_sample_is_made_only_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr("auditor.demo.sample.show", lambda out, *_: made.append(out))
    assert sample_run(tmp_path / "runs") == made[0]
    assert Path(made[0]).parent == tmp_path / "runs"


def test_the_sample_of_owners_is_what_pulsar_wrote() -> None:
    packed = files("auditor.demo") / "sample" / "pulsar-zookeeper.tar.gz"
    with packed.open("rb") as file, tarfile.open(fileobj=file) as archive:
        for name in archive.getnames():
            member = archive.extractfile(name)
            assert member is not None
            assert member.read() == (PULSAR.parent / name).read_bytes()


def test_the_sample_is_known_by_its_instance_id(tmp_path: Path) -> None:
    assert unpack_sample(tmp_path, 0).znodes[f"{ROOT}/INSTANCEID"].decode() == INSTANCE_ID
