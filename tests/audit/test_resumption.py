"""An interrupted run resumes while its data of a running store is fresh, and starts anew later."""

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


def interrupted_run(below: Path, **ages_s: float) -> RunDirectory:
    """Return a run directory with tables that were finished so many seconds ago, and an unfinished one."""
    run = RunDirectory(str(below / "run"))
    run.write_json(MANIFEST, {"identity": IDENTITY, "scan_time": 5})
    now_s = time.time()
    for name, age in ages_s.items():
        (below / "run" / "tables" / name).mkdir(parents=True)
        mark = below / "run" / "tables" / name / DONE_FILE
        mark.touch()
        os.utime(mark, (now_s - age, now_s - age))
    (below / "run" / "tables" / "half").mkdir(parents=True)
    (below / "run" / "findings").mkdir()
    return run


def test_fresh_tables_are_reused_with_a_notice(tmp_path: Path) -> None:
    run = interrupted_run(tmp_path, ledgers=800, members=20)
    resumption = resumption_of(run, LIVE, AuditOptions())
    assert resumption.oldest_table_time is not None
    assert abs(resumption.oldest_table_time / 1000 - (time.time() - 800)) < 60
    [note] = resumption.notes
    assert note.startswith("this run was resumed: it reuses tables of an interrupted run, the oldest from 20")
    assert run.exists(f"tables/ledgers/{DONE_FILE}")
    assert run.read_json(MANIFEST) == {"identity": IDENTITY, "scan_time": 5}


@pytest.mark.parametrize("within", [900.0, 0.0])
def test_one_stale_table_restarts_the_run_of_a_live_store(tmp_path: Path, within: float) -> None:
    run = interrupted_run(tmp_path, ledgers=within + 100, availability=1)
    resumption = resumption_of(run, LIVE, AuditOptions(resume_within=within))
    assert resumption.oldest_table_time is None
    assert resumption.notes[0].startswith(
        "an interrupted run was restarted from the beginning: its oldest table, from 20"
    )
    # Every other table follows from the first scan; and what was remembered is of it too.
    assert not run.exists("tables")
    assert not run.exists("findings")
    assert run.read_json(MANIFEST) == {"identity": IDENTITY}
    assert run.begin_run(IDENTITY) is True


def test_old_tables_of_a_saved_store_are_reused(tmp_path: Path) -> None:
    run = interrupted_run(tmp_path, ledgers=90_000)
    resumption = resumption_of(run, SAVED, AuditOptions())
    assert resumption.oldest_table_time is not None
    assert run.exists(f"tables/ledgers/{DONE_FILE}")


def test_run_without_finished_tables_has_nothing_to_resume(tmp_path: Path) -> None:
    assert resumption_of(RunDirectory(str(tmp_path / "none")), LIVE, AuditOptions()).notes == ()
    run = interrupted_run(tmp_path)
    assert (resumption_of(run, LIVE, AuditOptions()).oldest_table_time, run.oldest_table_ms()) == (None, None)
