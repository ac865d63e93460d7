"""Tests of entry log bytes by bookie, ledger, application and age, against manual sums, and their release."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import auditor
from auditor.actions.gate import permit
from auditor.actions.objects import bookie
from auditor.cli import main
from auditor.errors import RunUsageError
from auditor.model.finding import Confidence, Finding, Severity
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed
from auditor.model.space import (
    NO_APPLICATION_NAME,
    NO_BOOKIE_NAME,
    NO_LEDGER_NAME,
    UNLISTED_LEDGERS_NAME,
    SpaceGrouping,
    SpaceStep,
)
from auditor.runs import load_space
from auditor.runs.load_space import space_view
from auditor.runs.reader import RunReader
from tests.made_runs import made_run
from tests.reports.samples import report

Row = dict[str, Any]
SCAN = report().run.scan_time
DAY = 86_400_000


def log(path: str, size: int, kind: str = "log", bookie: str | None = "bk1:3181") -> Row:
    number = int(path.split(".")[0], 16)
    return {
        "bookie_id": bookie,
        "directory": "/l",
        "path": path,
        "log_id": number,
        "kind": kind,
        "bytes": size,
    }


def part(bookie: str | None, ledger: int | None, kind: str, size: int, scope: int = 0) -> Row:
    ledger_key = {"scope_id": scope, "ledger_id": ledger} if ledger is not None else {}
    return {"bookie_id": bookie, **ledger_key, "class": kind, "bytes": size}


LOGS = [
    log("0.log", 5000),
    log("1.log", 1000),
    log("1.log.0.compacted", 1000, "compacted"),
    log("7.log.2.compacted", 30, "compacted"),
    log("2.log", 70, bookie=None),
    {**log("0.log", 0), "bytes": None, "scope_id": 0, "ledger_id": 7, "entry_bytes": 900},
]
SPACE = [
    part("bk1:3181", None, "headers-and-maps", 1024),
    part("bk1:3181", 7, "live", 3000),
    part("bk1:3181", 7, "surplus", 76),
    part("bk1:3181", 8, "orphan", 900),
    part("bk1:3181", 9, "over-replicated", 1000),
    part("bk1:3181", 9, "live", 30, scope=1),
    part(None, 7, "owner-unknown", 70),
]
LEDGERS = [
    {
        "scope_id": 0,
        "ledger_id": 7,
        "status": "ok",
        "metadata_ctime": SCAN - 2 * DAY,
        "custom_metadata": [("application", b"pulsar"), ("component", b"managed-ledger")],
    },
    {"scope_id": 0, "ledger_id": 9, "status": "ok", "ctime": SCAN - 400 * DAY, "custom_metadata": []},
    {"scope_id": 1, "ledger_id": 9, "status": "unreadable"},
    {"status": "gap", "low": 1, "high": 2},
]
EXPECTED_BYTES: dict[SpaceGrouping, dict[str, int]] = {
    "bookie": {"bk1:3181": 6030, NO_BOOKIE_NAME: 70},
    "ledger": {
        "7": 3146,
        NO_LEDGER_NAME: 1024,
        "9": 1000,
        "8": 900,
        "00000000000000010000000000000009": 30,
    },
    "application": {
        "pulsar/managed-ledger": 3146,
        NO_APPLICATION_NAME: 1030,
        NO_LEDGER_NAME: 1024,
        UNLISTED_LEDGERS_NAME: 900,
    },
    "age": {
        "1 to 7 days": 3146,
        "1 to 3 years": 1000,
        NO_LEDGER_NAME: 1024,
        UNLISTED_LEDGERS_NAME: 900,
        "unknown": 30,
    },
}


def finding(id: str, bookie: str, confidence: Confidence = Confidence.CONFIRMED, **evidence: Any) -> Finding:
    return Finding(
        id, Severity.NOTE, confidence, bookie_id=bookie, evidence=evidence, fingerprint=id + bookie
    )


PINNED = finding(
    "entry-log-pinned",
    "bk1:3181",
    minor_bytes=800,
    major_bytes=1200,
    stranded_bytes=0,
    minor_threshold=0.2,
    major_threshold=0.8,
)
RECLAIMABLE = finding("entry-log-reclaimable", "bk1:3181", logs=1, bytes=1000)


def fresh_run(path: Path, findings: Sequence[Finding] = (), **tables: Any) -> RunReader:
    """Return a run with holds and an earlier run. Its holds are evaluated at the time of its scan."""
    facts: Any = {"total": 0, "urgent": 0, "carried": 0, "earlier_run": "before"}
    sample = report()
    whole = replace(sample, run=replace(sample.run, holds=facts))
    made_run(path, findings, whole, **tables)
    run = RunReader(path)
    run.holds.now_ms = SCAN
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    path = tmp_path_factory.mktemp("space") / "run"
    return fresh_run(path, [PINNED, RECLAIMABLE], space=SPACE, entry_logs=LOGS, ledgers=LEDGERS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the program's clock to the time of the scan."""
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: SCAN)


@pytest.mark.parametrize("by", EXPECTED_BYTES)
@pytest.mark.parametrize("rows", [load_space.MAX_PASS_ROWS, 1])
def test_sums_equal_manual_sums_in_one_pass_or_many(
    run: RunReader, by: SpaceGrouping, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_space, "MAX_PASS_ROWS", rows)
    view = space_view(run, by)
    assert {total.name: total.bytes for total in view.totals} == EXPECTED_BYTES[by]
    assert (view.remaining_bytes, view.remaining_count) == ({}, 0)
    of_classes = Counter[str]()
    for row in SPACE:
        of_classes[row["class"]] += row["bytes"]
    assert view.classes == of_classes
    # The second name of a log that is there is no file of its own; that of one which is gone is.
    assert (view.files, view.file_bytes, view.bytes) == (4, 6100, 6100)


@pytest.mark.parametrize("by", EXPECTED_BYTES)
def test_ledgers_without_bytes_in_logs_have_no_totals(by: SpaceGrouping, tmp_path: Path) -> None:
    made_run(tmp_path / "run", ledgers=LEDGERS)
    assert space_view(RunReader(tmp_path / "run"), by).totals == ()


def disk_of(device: int, free: int) -> Row:
    return {"device": device, "capacity": 1_000_000, "free": free, "seen": SCAN}


def disk(bookie: str | None, device: int, free: int, **sizes: Any) -> Row:
    whole = {"device": device, "capacity_bytes": 1_000_000, "free_bytes": free, "seen": SCAN}
    return {"bookie_id": bookie, "directory": f"/l{device}", **whole, **sizes}


DISKS = [
    disk("bk1:3181", 1, 400_000, journal_bytes=5000, other_bytes=16),
    disk("bk1:3181", 2, 30_000, rocksdb_bytes=700),
    disk("bk1:3181", 2, 30_000, index_bytes=90),
    {
        "bookie_id": "bk2:3181",
        "directory": "/l",
        "reason": "the bookie's collection was made without --entry-logs",
    },
]


def test_bytes_outside_logs_are_summed_and_a_file_system_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = made_run(path, space=SPACE, entry_logs=LOGS, disks=DISKS)
    first, second = space_view(run, "bookie").disks
    assert (first.journals, first.indexes, first.rocksdb, first.other, first.unread) == (5000, 90, 700, 16, 0)
    assert [file_system.free for file_system in first.file_systems] == [30_000, 400_000]
    assert (second.name, second.fullest, second.unread) == ("bk2:3181", None, 1)
    lines = bkaudit(path).output.splitlines()
    assert (
        "bk1:3181          5.0 kB    90 B     700 B    16 B   30.0 kB of 1.0 MB (3.0 %), the fullest of 2"
        in lines
    )
    assert "bk2:3181          -         -        -        -      not seen" in lines
    shown = json.loads(bkaudit(path, "--format", "json").output)
    assert shown["disks"][0]["file_systems"][0] == disk_of(2, 30_000)
    assert space_view(run, "ledger").disks == ()


def test_unlisted_ledgers_are_one_sum(run: RunReader) -> None:
    view = space_view(run, "ledger", max_totals=2)
    assert [total.name for total in view.totals] == ["7", NO_LEDGER_NAME]
    assert (view.remaining_bytes, view.remaining_count) == (
        {"orphan": 900, "over-replicated": 1000, "live": 30},
        3,
    )
    assert view.bytes == 6100


def test_applications_beyond_the_limit_are_one_total(run: RunReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_space, "MAX_NAMES", 1)
    names = [total.name for total in space_view(run, "application").totals]
    assert len(names) == 2
    assert "(further names)" in names


def test_age_groups_are_in_order_of_age(run: RunReader) -> None:
    names = [total.name for total in space_view(run, "age").totals]
    assert names == ["1 to 7 days", "1 to 3 years", NO_LEDGER_NAME, UNLISTED_LEDGERS_NAME, "unknown"]


def test_space_steps_are_largest_first_with_command_and_risk(run: RunReader) -> None:
    steps = space_view(run, "bookie").steps
    url = "http://bk1:8080/api/v1/bookie/gc"
    assert [(step.bytes, step.command) for step in steps] == [
        (1200, f"""curl -X PUT -d '{{"forceMajor": true, "forceMinor": true}}' {url}"""),
        (1000, None),
        (1000, f"curl -X PUT {url}"),
        (800, f"""curl -X PUT -d '{{"forceMajor": false, "forceMinor": true}}' {url}"""),
    ]
    # forceMajor collects garbage first.
    assert {step.risk.split(";")[0] for step in steps} == {"danger"}


HOLD: Row = {
    "object": "bookie",
    "key": "bk1:3181",
    "forbids": ["collect", "compact"],
    "reason": "owner-dangling",
    "certain": True,
    "urgency": "lost",
    "count": 1,
    "accepted": False,
    "first_seen": 1,
    "lift": "finding-gone",
    "carried": False,
    "message": "an owner names ledger 8",
}


@pytest.mark.parametrize(
    "reason", ["owner-dangling", "metadata-suspect", "alias-gc-danger", "entry-lost", "unindexed-bytes"]
)
def test_held_space_steps_are_refused_with_their_reason(reason: str, tmp_path: Path, clock: None) -> None:
    hold = HOLD | {"reason": reason}
    run = fresh_run(tmp_path, [PINNED, RECLAIMABLE], space=SPACE, entry_logs=LOGS, holds=[hold])
    view = space_view(run, "bookie")
    assert view.steps == ()
    assert [(row.bookie_id, row.bytes, row.kind) for row in view.refused] == [
        ("bk1:3181", 1200, ActionKind.COMPACT),
        ("bk1:3181", 1000, ActionKind.COLLECT),
        ("bk1:3181", 1000, ActionKind.COLLECT),
        ("bk1:3181", 800, ActionKind.COMPACT),
    ]
    assert {(row.why, row.reasons) for row in view.refused} == {
        (f"an owner names ledger 8 ({reason})", (reason,))
    }
    text = bkaudit(tmp_path).output
    assert "no step that frees space is permitted" in text
    assert "bk1:3181: do not free" in text
    assert f"why not: an owner names ledger 8 ({reason})" in text
    assert "curl" not in text
    assert len(json.loads(bkaudit(tmp_path, "--format", "json").output)["refused"]) == 4


def test_only_confirmed_findings_of_a_fresh_run_become_steps(tmp_path: Path) -> None:
    suspected = finding("entry-log-reclaimable", "bk2:3181", Confidence.SUSPECT, logs=1, bytes=5)
    registered = {
        "bookie_id": "bk1:3181",
        "mode": "writable",
        "used": True,
        "host": "10.0.0.2",
        "endpoints": [{"id": "httpserver", "host": "0.0.0.0", "port": 8000, "protocol": "http"}],
    }
    tables: dict[str, Any] = {"space": SPACE[:1], "entry_logs": LOGS, "registrations": [registered]}
    run = fresh_run(tmp_path, [RECLAIMABLE, suspected], **tables)
    view = space_view(run, "bookie")
    assert [step.command for step in view.steps] == ["curl -X PUT http://10.0.0.2:8000/api/v1/bookie/gc"]
    [refused] = view.refused
    assert (refused.bookie_id, refused.bytes) == ("bk2:3181", 5)
    assert "unconfirmed" in refused.why
    run.holds.now_ms += 25 * 3_600_000
    old = space_view(run, "bookie")
    assert old.steps == ()
    assert {row.why.partition(";")[0] for row in old.refused} == {
        "the data of this run is more than 24 hours old"
    }


def test_space_step_requires_a_permission_of_the_gate(tmp_path: Path) -> None:
    run = fresh_run(tmp_path)
    other_bookie, stop = bookie("bk2:3181"), permit(run, ActionKind.STOP, [bookie("bk1:3181")])
    assert isinstance(stop, Allowed)
    elsewhere = permit(run, ActionKind.COLLECT, [other_bookie])
    assert isinstance(elsewhere, Allowed)
    with pytest.raises(TypeError, match="permission"):
        SpaceStep("bk1:3181", 1, "collection", None, "danger")  # type: ignore[call-arg]  # what is to fail
    for answer, message in (
        (stop, "the gate permitted no action that frees space"),
        (elsewhere, "the gate did not permit collect on this bookie"),
    ):
        with pytest.raises(TypeError, match=message):
            SpaceStep("bk1:3181", 1, "collection", None, "danger", answer)


def test_space_steps_are_created_in_one_module() -> None:
    package = Path(auditor.__file__).parent
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\bSpaceStep\(", path.read_text("utf-8"))
    }
    assert users == {"runs/space_steps.py"}


def leak(scope: int, ledger: int, confidence: Confidence = Confidence.CONFIRMED) -> Finding:
    name = f"leak{scope}-{ledger}"
    return Finding(
        "ledger-unowned", Severity.NOTE, confidence, scope_id=scope, ledger_id=ledger, fingerprint=name
    )


def test_unowned_ledgers_are_a_step_with_their_bytes_on_each_bookie(tmp_path: Path) -> None:
    """Ledger 9 of scope 1 is unowned, ledger 9 of scope 0 is not. Ledger 5 is on no disk that was read."""
    extra = [part("bk2:3181", 7, "orphan", 11), part("bk2:3181", 8, "live", 1_000_000)]
    leaks = [leak(0, 7, Confidence.SUSPECT), leak(1, 9), leak(0, 5), leak(0, 8)]
    override = {"object": "ledger", "key": "0/8", "scope_id": 0, "ledger_id": 8, "forbids": ["delete-ledger"]}
    path = tmp_path / "run"
    run = fresh_run(path, leaks, space=[*SPACE, *extra], entry_logs=LOGS, holds=[HOLD | override])
    view = space_view(run, "bookie")
    [step] = [step for step in view.steps if "no owner" in step.what]
    assert (step.bookie_id, step.bytes, step.command) == (
        "bk1:3181",
        30,
        f"bkaudit report {path} --leaks",
    )
    assert "deleteledger" not in step.what
    refused = [(row.bookie_id, row.bytes, row.why) for row in view.refused if "no owner" in row.what]
    unconfirmed = "the finding is unconfirmed, and a deletion needs proof"
    assert refused == [
        ("bk1:3181", 3076, unconfirmed),
        ("bk1:3181", 900, "a hold forbids it (owner-dangling)"),
        ("bk2:3181", 1_000_000, "a hold forbids it (owner-dangling)"),
        ("bk2:3181", 11, unconfirmed),
    ]


def test_unowned_ledger_is_not_deleted_without_earlier_run_or_under_a_hold(tmp_path: Path) -> None:
    source = HOLD | {"object": "source", "key": "owners", "forbids": ["delete-ledger"]}
    run = fresh_run(tmp_path / "held", [leak(1, 9)], space=SPACE, entry_logs=LOGS, holds=[source])
    steps = [step for step in space_view(run, "bookie").steps if "no owner" in step.what]
    assert steps == []
    first = fresh_run(tmp_path / "first", [leak(1, 9)], space=SPACE, entry_logs=LOGS)
    first.holds.has_prior_run = False
    [row] = [row for row in space_view(first, "bookie").refused if "no owner" in row.what]
    assert row.why.startswith("no earlier run")


def bkaudit(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["space", *(str(argument) for argument in arguments)])


def test_text_has_the_sum_the_files_and_the_steps_that_free_most(run: RunReader, clock: None) -> None:
    shown = bkaudit(run.path)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[0] == "4 files of 6,100 bytes: every byte belongs to one class"
    assert lines[3].startswith("bk1:3181    6.0 kB  98.8 %")
    assert lines[5].startswith("(all)       6.1 kB  100 %")
    assert "bk1:3181: steps that free the most space" in lines
    assert (
        "  1. 1.2 kB (1,200 bytes): major compaction rewrites entry logs in which "
        "20 to 80 % of the bytes are needed" in lines
    )


def test_json_and_csv_have_the_same_figures(run: RunReader, clock: None) -> None:
    shown = json.loads(bkaudit(run.path, "--format", "json").output)
    assert (shown["file_bytes"], shown["bytes"], len(shown["steps"])) == (6100, 6100, 4)
    rows = list(
        csv.reader(StringIO(bkaudit(run.path, "--by", "ledger", "--top", 1, "--format", "csv").output))
    )
    assert rows[0][:3] == ["ledger", "bytes", "live"]
    assert [row[:2] for row in rows[1:]] == [["7", "3146"], ["(4 others)", "2954"]]


def test_difference_between_file_and_class_bytes_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "run"
    made_run(path, space=SPACE[:2], entry_logs=LOGS)
    first = bkaudit(path).output.splitlines()[0]
    assert first == "4 files of 6,100 bytes, and 4,024 bytes in classes; the sums differ by 2,076 bytes"


def test_run_without_entry_logs_names_the_missing_option(tmp_path: Path) -> None:
    path = tmp_path / "run"
    made_run(path)
    (path / "tables" / "space" / "part-00000.parquet").unlink()
    (path / "tables" / "space").rmdir()
    with pytest.raises(RunUsageError, match="--entry-logs"):
        space_view(RunReader(path), "bookie")
    shown = bkaudit(path)
    assert shown.exit_code == 2
    assert "audit with --entry-logs" in shown.output
