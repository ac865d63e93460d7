"""An interrupted run is taken up while what it read of a running store is fresh, and begun anew later."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from auditor.audit.run_store import resumption_of
from auditor.model.options import AuditOptions
from auditor.model.run_facts import DONE_FILE, MANIFEST
from auditor.runs.directory import RunDirectory

LIVE, SAVED = "zk://h1:2181/ledgers", "dump:///saved/metadata.jsonl"
IDENTITY = {"metadata": "as asked"}


def broken_off(below: Path, **ages_s: float) -> RunDirectory:
    """A run directory with these tables, whole since so many seconds, and one that is not."""
    run = RunDirectory(str(below / "run"))
    run.write_json(MANIFEST, {"identity": IDENTITY, "scan_time": 5})
    now = time.time()
    for name, age in ages_s.items():
        (below / "run" / "tables" / name).mkdir(parents=True)
        mark = below / "run" / "tables" / name / DONE_FILE
        mark.touch()
        os.utime(mark, (now - age, now - age))
    (below / "run" / "tables" / "half").mkdir(parents=True)
    (below / "run" / "findings").mkdir()
    return run


def test_what_is_fresh_is_taken_and_said_to_be(tmp_path: Path) -> None:
    run = broken_off(tmp_path, ledgers=800, members=20)
    found = resumption_of(run, LIVE, AuditOptions())
    assert found.oldest_table_time is not None
    assert abs(found.oldest_table_time / 1000 - (time.time() - 800)) < 60
    [note] = found.notes
    assert note.startswith("this run was resumed: it reuses tables of an interrupted run, the oldest from 20")
    assert run.exists(f"tables/ledgers/{DONE_FILE}")
    assert run.read_json(MANIFEST) == {"identity": IDENTITY, "scan_time": 5}


@pytest.mark.parametrize("within", [900.0, 0.0])
def test_with_one_table_too_old_all_of_a_running_store_is_read_again(tmp_path: Path, within: float) -> None:
    run = broken_off(tmp_path, ledgers=within + 100, availability=1)
    found = resumption_of(run, LIVE, AuditOptions(resume_within=within))
    assert found.oldest_table_time is None
    assert found.notes[0].startswith(
        "an interrupted run was restarted from the beginning: its oldest table, from 20"
    )
    # Every other table follows from the first scan; and what was remembered is of it too.
    assert not run.exists("tables")
    assert not run.exists("findings")
    assert run.read_json(MANIFEST) == {"identity": IDENTITY}
    assert run.begin_run(IDENTITY) is True


def test_what_is_saved_does_not_change(tmp_path: Path) -> None:
    run = broken_off(tmp_path, ledgers=90_000)
    found = resumption_of(run, SAVED, AuditOptions())
    assert found.oldest_table_time is not None
    assert run.exists(f"tables/ledgers/{DONE_FILE}")


def test_a_run_that_got_nowhere_has_nothing_to_take(tmp_path: Path) -> None:
    assert resumption_of(RunDirectory(str(tmp_path / "none")), LIVE, AuditOptions()).notes == ()
    run = broken_off(tmp_path)
    assert (resumption_of(run, LIVE, AuditOptions()).oldest_table_time, run.oldest_table_ms()) == (None, None)
