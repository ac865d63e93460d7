"""Tests of ``bkaudit simulate``: failures of runs with racks, owners, open ledgers and unread bookies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import jsonschema
import pytest

from auditor.model.placement import Level, Location, Locations
from auditor.model.run_facts import RemarkKind, remark
from auditor.model.simulation import Amount, DiskLoad, NearLoss, Simulation
from auditor.notebook.run import open_run
from auditor.reports.first_screen import render
from auditor.reports.schema import simulation_schema
from auditor.reports.simulation import near_loss_sentences, text
from auditor.runs.reader import RunReader
from auditor.simulate.simulation import failure_matrix, simulate_all, simulate_any_domains, simulate_failure
from tests.cli.test_doors import bkaudit
from tests.made_runs import made_run
from tests.reports.samples import report
from tests.simulate.small_clusters import Ledger

RACKS = {"a": "/r1", "b": "/r1", "c": "/r2", "d": "/r3"}
WHOLE = Ledger(1, "CLOSED", 3, 2, 2, 29, ((0, ("a", "b", "c")),))
SPREAD = Ledger(2, "CLOSED", 2, 2, 2, 9, ((0, ("a", "c")),))
LACKING = Ledger(3, "CLOSED", 2, 2, 2, 9, ((0, ("c", "d")),), {"d": frozenset(range(10))})
OPEN = Ledger(4, "OPEN", 3, 3, 2, -1, ((0, ("a", "c", "d")),))
LEDGERS = (WHOLE, SPREAD, LACKING, OPEN)


def bookie(name: str, **columns: Any) -> dict[str, Any]:
    return {"bookie_id": name, "named": True, "read": "read", "registered": "writable"} | columns


def make(path: Path, *bookies: dict[str, Any], **tables: Any) -> RunReader:
    made_run(
        path,
        ledgers=[ledger.metadata() for ledger in LEDGERS],
        judged=[row for ledger in LEDGERS for row in ledger.judged()],
        bookies=list(bookies) or [bookie(name) for name in RACKS],
        report=report(findings=()),
        **tables,
    )
    return RunReader(path)


@pytest.fixture
def run(tmp_path: Path) -> RunReader:
    owner = {"scope_id": 0, "standing": "owned", "kind": "data", "tenant": "shop", "borrowed": False}
    rows = [
        owner | {"ledger_id": 1, "namespace": "orders", "topic": "returns", "offload": "complete"},
        owner | {"ledger_id": 3, "namespace": "orders", "topic": "carts"},
    ]
    return make(tmp_path, ownership=rows)


def rack_locations(**changes: str | None) -> Locations:
    return Locations({name: Location(path) for name, path in (RACKS | changes).items()}, "racks.txt")


def near_by_level(simulation: Simulation) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {level.level: (level.near.found.ledgers, level.near.names) for level in simulation.levels}


def test_rack_with_all_copies_and_last_copy_are_one_failure_from_loss(run: RunReader) -> None:
    simulation = simulate_all(run, rack_locations())
    assert near_by_level(simulation) == {"bookie": (1, ("c",)), "rack": (2, ("/r1", "/r2"))}
    [racks] = [level for level in simulation.levels if level.level == "rack"]
    assert racks.distance == {1: 2, 2: 1}
    [burnt] = [single for single in racks.singles if single.names == ("/r1",)]
    # Of E3 Qw2 every third entry is on a and b alone.
    assert burnt.today.sure.lost == burnt.promise.sure.lost == Amount(1, 10, 100)
    assert burnt.today.is_exact


def test_worst_pairs_add_shared_and_separate_losses(run: RunReader) -> None:
    simulation = simulate_any_domains(run, 2, Level.RACK, rack_locations())
    [level] = simulation.levels
    assert [worst_set.names for worst_set in level.sets] == [("/r1", "/r2"), ("/r1", "/r3"), ("/r2", "/r3")]
    assert [worst_set.entries for worst_set in level.sets] == [30 + 10 + 10, 10, 10]
    assert (level.losing, level.of) == (3, 3)
    assert simulation.failure is not None
    assert simulation.failure.today.sure.lost == Amount(3, 50, 500)


def test_text_says_where_the_worst_set_is_not_proved(run: RunReader) -> None:
    simulation = simulate_any_domains(run, 3, Level.BOOKIE, rack_locations())
    assert "\nworst sets of 3 of bookies; 4 of 4 lose an entry\n" in text(simulation)
    grown = replace(simulation, levels=(replace(simulation.levels[0], proved=False, losing=None),))
    assert "\nworst found (there may be worse): sets of 3 of bookies\n" in text(grown)


def test_failure_lists_its_ledgers_and_topics(run: RunReader) -> None:
    simulation = simulate_failure(run, [(Level.RACK, ["r1", "/r2"])], rack_locations())
    assert [(row.ledger_id, row.fate) for row in simulation.ledgers] == [
        ("1", "lost"), ("2", "lost"), ("3", "lost"), ("4", "unrecoverable"),
    ]  # fmt: skip
    assert simulation.topics is not None
    assert [(row.name, row.entries, row.offloaded) for row in simulation.topics] == [
        ("shop/orders/returns", 30, 1), ("", 10, 0), ("shop/orders/carts", 10, 0),
    ]  # fmt: skip
    assert {row.answer for row in simulation.writes} == {"no"}


def test_open_ledger_needs_answers_of_every_window(run: RunReader) -> None:
    lost = {"one": ["c"], "two": ["c", "d"]}
    open_ledgers = {
        name: simulate_failure(run, [(Level.BOOKIE, bookies)]).failure for name, bookies in lost.items()
    }
    assert {name: f.promise.sure.unrecoverable for name, f in open_ledgers.items() if f} == {
        "one": 0,
        "two": 1,
    }


def test_down_bookie_counts_in_today_and_not_in_the_promise(tmp_path: Path) -> None:
    run = make(tmp_path, *(bookie(name, registered=None if name == "d" else "writable") for name in RACKS))
    failure = simulate_failure(run, [(Level.BOOKIE, ["c"])]).failure
    assert failure is not None
    assert failure.promise.sure.unrecoverable == 0
    assert failure.today.sure.unrecoverable == 1


def test_unread_bookie_makes_loss_possible_but_not_sure(tmp_path: Path) -> None:
    run = make(tmp_path, *(bookie(name, read="unread" if name == "c" else "read") for name in RACKS))
    simulation = simulate_failure(run, [(Level.BOOKIE, ["a"])])
    assert simulation.doubts.unread == ("c",)
    assert simulation.failure is not None
    assert simulation.failure.today.sure.lost == Amount()
    assert simulation.failure.today.possible.lost == Amount(2, 20, 200)
    assert [level.near.perhaps for level in simulate_all(run).levels] == [2]


def test_bookie_without_location_may_be_in_any_rack(run: RunReader) -> None:
    simulation = simulate_all(run, rack_locations(c=None))
    [racks] = [level for level in simulation.levels if level.level == "rack"]
    assert racks.unplaced == ("c",)
    assert racks.near.found.ledgers == 2  # the last copy on c is in whatever rack that is
    assert racks.near.perhaps == 1
    failure = simulate_failure(run, [(Level.RACK, ["/r1"])], rack_locations(c=None)).failure
    assert failure is not None
    assert not failure.promise.is_exact


def test_disk_load_counts_each_ledger_once(tmp_path: Path) -> None:
    log = {"bookie_id": "a", "directory": "/d1", "kind": "log", "log_id": 1}
    ledger = log | {"scope_id": 0, "ledger_id": 7, "entries": 3}
    logs = [
        log | {"bytes": 500}, ledger, ledger | {"ledger_id": 8},
        log | {"bytes": 300, "log_id": 2}, ledger | {"log_id": 2},
        log | {"bytes": 300, "kind": "compacted"},
        log | {"bytes": 40, "directory": "/d2"}, ledger | {"directory": "/d2", "entries": None},
        log | {"bytes": 9, "bookie_id": None, "directory": "/nobody"},
    ]  # fmt: skip
    disks = [{"bookie_id": "a", "directory": "/d1", "capacity_bytes": 1000, "free_bytes": 150}]
    simulation = simulate_all(make(tmp_path, entry_logs=logs, disks=disks))
    assert simulation.balance is not None
    assert simulation.balance.disks == (
        DiskLoad("a", "/d1", 2, 9, 800, 0.85),
        DiskLoad("a", "/d2", 1, None, 40, None),
    )
    assert {load.name: load.disk for load in simulation.balance.bookies}["a"] == 840
    words = " ".join(text(simulation).split())
    assert "a /d1 800 B 1.90x 9 2 85%" in words
    assert "a /d2 40 B 0.10x not known 1 not seen" in words


def test_simulate_command_prints_text_and_valid_json(run: RunReader, tmp_path: Path) -> None:
    racks = tmp_path / "racks.txt"
    racks.write_text("".join(f"{name} {path}\n" for name, path in RACKS.items()))
    done = bkaudit("simulate", run.path, "--racks", str(racks))
    assert done.exit_code == 0
    assert "1 ledger (bookie c); 2 ledgers (rack /r1, /r2)" in " ".join(done.output.split())
    assert max(map(len, done.output.splitlines())) <= 80
    for options in ([], ["--lose", "rack", "/r1"], ["--any", "3", "bookie"]):
        done = bkaudit("simulate", run.path, "--racks", str(racks), "--format", "json", *options)
        jsonschema.validate(json.loads(done.output), simulation_schema())


def test_page_has_a_matrix_of_failures(run: RunReader) -> None:
    matrix = failure_matrix(run)
    assert (matrix.level, matrix.names) == ("bookie", ("c", "a", "b", "d"))
    assert matrix.bytes[1] == (100 + 100 + 100, 0, 100, 0)  # a with c, alone, with b, with d
    page = "".join(open_run(run.path).html_page())
    assert '<h2 id="failures">Failures</h2>' in page
    assert '<td class="n loss4">300 B</td>' in page


def test_notebook_frame_has_all_single_failures(run: RunReader) -> None:
    frame = open_run(run.path).frames.failures()
    assert frame.loc[("bookie", "c"), ["ledgers", "entries", "bytes"]].tolist() == [1, 10, 100]
    assert frame.loc[("bookie", "a"), "below_ack_quorum"] == 2


def test_first_screen_names_ledgers_one_failure_from_loss() -> None:
    words = near_loss_sentences(
        [NearLoss("bookie", Amount(), 0, (), 0), NearLoss("rack", Amount(3, 9, 90), 2, ("/r1", "/r2"), 0)]
    )
    screen = render(report(remarks=[remark(RemarkKind.NEAR_LOSS, "one failure from data loss", *words)]))
    assert "exposure   one failure from data loss: 3 ledgers (rack /r1, /r2)\n" in screen


@pytest.mark.parametrize(
    ("options", "error_text"),
    [
        (["--lose", "bookie", "nobody"], "--lose bookie nobody: no such bookie; known: a, b, c, d"),
        (
            ["--lose", "rack", "/r1"],
            "--lose rack /r1: the run has no locations of bookies; pass --racks FILE",
        ),
        (["--lose", "bookie", ","], "--lose bookie: give one name"),
        (["--any", "5", "bookie"], "the run has only 4 of them"),
        (["--any", "1", "bookie", "--lose", "bookie", "a"], "pass only one of them"),
        (["--racks", "/nowhere"], "No such file"),
    ],
)
def test_invalid_simulate_options_are_refused(run: RunReader, options: list[str], error_text: str) -> None:
    done = bkaudit("simulate", run.path, *options)
    assert done.exit_code == 2
    assert error_text in done.output


def test_missing_table_of_unequal_copies_is_reported_as_damage(run: RunReader) -> None:
    rmtree(Path(run.path, "tables", "judged"))
    done = bkaudit("simulate", run.path)
    assert done.exit_code == 5
    assert "tables/judged is damaged (missing)" in done.output


def test_possible_loss_is_shown_as_an_upper_bound(tmp_path: Path) -> None:
    unread = [bookie("a"), *(bookie(name, read="unread") for name in "bcd")]
    done = bkaudit("simulate", make(tmp_path, *unread).path, "--lose", "bookie", "a")
    words = " ".join(done.output.split())
    assert "lost at most 30 entries (300 B) of 2 ledgers, based on the current indexes" in words
    assert "below ack quorum at most 30 entries (300 B) of 2 ledgers, based on the current indexes" in words
