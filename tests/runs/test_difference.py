"""Tests that compare two finished runs without Spark."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.errors import RunError
from auditor.runs.history import RunDifference
from tests.findings.changed_runs import INSTANCE, row, write_run

SCHEMAS = Path(__file__).parents[2] / "schemas"
A, B = "bk-a:3181", "bk-b:3181"
HEALTHY = "healthy"


def changes(old: Path, new: Path) -> dict[tuple[str, int | None, str | None], str]:
    changed = RunDifference(str(old), str(new)).changes()
    return {(finding.id, finding.ledger_id, finding.bookie_id): finding.change for finding in changed}


def test_every_kind_of_change_is_reported(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    write_run(
        old,
        [
            row("below-write-quorum", 1, missing=1),
            row("below-write-quorum", 2, missing=5),
            row("below-write-quorum", 3, missing=5),
            row("below-write-quorum", 4, missing=5),
            row("entry-lost", 5, missing=5),
            row("below-write-quorum", 6, missing=5),
            row("bookie-down", bookie=B),
            row("orphan-ledger", 7, A, change="unseen"),
            row("orphan-ledger", 8, A, change="fixed"),
        ],
        bookies=[(A, "read")],
    )
    write_run(
        new,
        [
            row("below-write-quorum", 1, missing=1),
            row("below-write-quorum", 2, missing=6),
            row("below-write-quorum", 3, missing=4),
            row("entry-lost", 4, missing=1),
            row("below-ack-quorum", 5, missing=9),
            row("orphan-ledger", 7, A, change="same"),
            row("orphan-ledger", 9, A, suppressed="known"),
            row("orphan-ledger", 10, A, change="fixed"),
        ],
        classes=[(ledger, HEALTHY, HEALTHY) for ledger in range(1, 8)],
        bookies=[(A, "read")],
    )
    assert changes(old, new) == {
        ("below-write-quorum", 2, None): "worse",
        ("below-write-quorum", 3, None): "better",
        ("entry-lost", 4, None): "worse",
        ("below-ack-quorum", 5, None): "better",
        ("orphan-ledger", 9, A): "new",
        ("below-write-quorum", 6, None): "fixed",
        ("bookie-down", None, B): "fixed",
    }
    difference = RunDifference(str(old), str(new))
    assert difference.summary.counts == {
        "new": 1, "worse": 2, "better": 2, "fixed": 2, "unseen": 0, "same": 2,
    }  # fmt: skip
    worse = next(change for change in difference.changes() if change.id == "entry-lost")
    assert (worse.previous_severity, worse.severity) == ("warning", "critical")
    assert (worse.previous_missing, worse.missing) == (5, 1)
    assert [(change.change, change.id, change.count) for change in difference.summary.tally] == [
        ("new", "orphan-ledger", 1),
        ("worse", "entry-lost", 1),
        ("worse", "below-write-quorum", 1),
        ("better", "below-ack-quorum", 1),
        ("better", "below-write-quorum", 1),
        ("fixed", "below-write-quorum", 1),
        ("fixed", "bookie-down", 1),
    ]


@pytest.mark.parametrize(
    ("finding", "new_run", "change"),
    [
        # Copies: the class of the ledger has to be decided, or the ledger gone from a whole listing.
        (row("entry-lost", 1), {"classes": [(1, HEALTHY, HEALTHY)]}, "fixed"),
        (row("entry-lost", 1), {"classes": [(1, HEALTHY, "entry-lost")]}, "unseen"),
        (row("entry-lost", 1), {"classes": [(1, "undecided", "undecided")]}, "unseen"),
        (row("entry-lost", 1), {}, "fixed"),
        (row("entry-lost", 1), {"run": {"gaps": ["/ledgers/00: lost"]}}, "unseen"),
        (row("entry-lost", 1, scope=7), {"classes": [(1, HEALTHY, "entry-lost")]}, "fixed"),
        (row("mark-stale", 1), {"classes": [(1, HEALTHY, HEALTHY)]}, "fixed"),
        (row("mark-stale", 1), {"classes": [(1, HEALTHY, HEALTHY)], "run": {"gaps": ["x"]}}, "unseen"),
        # Counted by bookie, the copies of many ledgers: every bookie has to be read, and all be listed.
        (row("mark-stale", bookie=A), {"bookies": [(A, "read"), (B, "read")]}, "fixed"),
        (row("mark-stale", bookie=A), {"bookies": [(A, "read"), (B, "unread")]}, "unseen"),
        (row("mark-stale", bookie=A), {"bookies": [(A, "read")], "run": {"gaps": ["x"]}}, "unseen"),
        (row("surplus-entries", bookie=A), {"bookies": [(A, "read"), (B, "unread")]}, "fixed"),
        (row("surplus-entries", bookie=A), {"bookies": [(A, "partial")]}, "unseen"),
        # Disks: the bookie has to be read whole, and the ledger and its index there to be known.
        (row("orphan-ledger", 1, A), {"bookies": [(A, "read")]}, "fixed"),
        (row("orphan-ledger", 1, A), {"bookies": [(A, "partial")]}, "unseen"),
        (row("orphan-ledger", 1, A), {"bookies": [(A, "unread")]}, "unseen"),
        (row("orphan-ledger", 1, A), {"bookies": [(A, "read")], "run": {"gaps": ["x"]}}, "unseen"),
        (row("orphan-ledger", 1, A), {"bookies": [(B, "unread")]}, "fixed"),
        (row("orphan-ledger", 1, A), {"run": {"gaps": ["x"]}}, "unseen"),
        (
            row("surplus-entries", 1, A),
            {"bookies": [(A, "read")], "classes": [(1, "undecided", "undecided")]},
            "unseen",
        ),
        (
            row("surplus-entries", 1, A),
            {"bookies": [(A, "read")], "classes": [(1, HEALTHY, "below-write-quorum")]},
            "fixed",
        ),
        (row("disk-shared"), {"bookies": [(A, "read")]}, "fixed"),
        (row("disk-shared"), {"bookies": [(A, "read"), (B, "unread")]}, "unseen"),
        (row("a-check-that-is-gone", bookie=A), {"bookies": [(A, "unread")]}, "unseen"),
        # The store alone: a listing without holes, or the ledger in it.
        (row("bookie-down", bookie=A), {"bookies": [(A, "unread")]}, "fixed"),
        (row("bookie-down", bookie=A), {"run": {"gaps": ["x"]}}, "unseen"),
        (
            row("metadata-unreadable", 1),
            {"classes": [(1, "undecided", "undecided")], "run": {"gaps": ["x"]}},
            "fixed",
        ),
        (
            row("mark-stuck", 1),
            {"classes": [(1, HEALTHY, HEALTHY)], "run": {"gaps": ["x"]}},
            "unseen",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_finding_whose_subject_was_not_checked_is_unseen_not_fixed(
    tmp_path: Path, finding: dict[str, Any], new_run: dict[str, Any], change: str
) -> None:
    write_run(tmp_path / "old", [finding])
    write_run(tmp_path / "new", [], **new_run)
    [changed] = RunDifference(str(tmp_path / "old"), str(tmp_path / "new")).changes()
    assert changed.change == change


@pytest.mark.parametrize(("ledger", "change"), [(1, "unseen"), (2, "fixed")])
def test_ledger_with_an_unreadable_index_is_unseen_not_fixed(
    tmp_path: Path, ledger: int, change: str
) -> None:
    write_run(tmp_path / "old", [row("orphan-ledger", ledger, A)])
    write_run(tmp_path / "new", [row("index-unreadable", 1, A)], bookies=[(A, "read")])
    assert changes(tmp_path / "old", tmp_path / "new")["orphan-ledger", ledger, A] == change


def test_ledger_id_of_a_misplaced_record_is_unseen_not_fixed(tmp_path: Path) -> None:
    write_run(tmp_path / "old", [row("entry-lost", 1)])
    write_run(tmp_path / "new", [], run={"in_doubt": {"ids": "1", "reasons": ["/ledgers/L1: misplaced"]}})
    assert changes(tmp_path / "old", tmp_path / "new")["entry-lost", 1, None] == "unseen"


def test_finding_is_better_only_if_its_potential_class_is_better_too(tmp_path: Path) -> None:
    write_run(tmp_path / "old", [row("entry-lost", 1), row("entry-lost", 2)])
    write_run(
        tmp_path / "new",
        [row("below-write-quorum", 1), row("below-write-quorum", 2)],
        classes=[
            (1, "below-write-quorum", "entry-lost"),
            (2, "below-write-quorum", "below-write-quorum"),
        ],
    )
    assert changes(tmp_path / "old", tmp_path / "new") == {("below-write-quorum", 2, None): "better"}


def test_comparison_does_not_depend_on_row_order_files_or_run_name(tmp_path: Path) -> None:
    rows = [row("orphan-ledger", ledger, A) for ledger in range(500)]
    newer = [row("orphan-ledger", ledger, A) for ledger in range(250, 750)]
    write_run(tmp_path / "old", rows)
    write_run(tmp_path / "new", newer, bookies=[(A, "read")])
    random.Random(7).shuffle(rows)
    random.Random(8).shuffle(newer)
    write_run(tmp_path / "a", rows, files=3)
    write_run(tmp_path / "b", newer, files=2, bookies=[(A, "read")])
    (tmp_path / "b").rename(tmp_path / "renamed")
    expected = changes(tmp_path / "old", tmp_path / "new")
    assert changes(tmp_path / "a", tmp_path / "renamed") == expected
    assert sorted(expected.values()) == ["fixed"] * 250 + ["new"] * 250


def test_runs_that_do_not_compare_leave_warnings(tmp_path: Path) -> None:
    write_run(tmp_path / "one", [row("orphan-ledger", 1, A)], bookies=[(A, "unread"), (B, "read")])
    write_run(tmp_path / "two", [], bookies=[(A, "read"), (B, "partial")], run={"gaps": ["x"]})
    write_run(tmp_path / "three", [], instance_id="another", run={"finished": 1})
    warnings = RunDifference(str(tmp_path / "one"), str(tmp_path / "two")).summary.warnings
    assert [warning.partition(" ")[0] for warning in warnings] == [B, A, "parts"]
    warnings = RunDifference(str(tmp_path / "one"), str(tmp_path / "three")).summary.warnings
    assert f"two clusters, {INSTANCE} and another" in warnings[0]
    write_run(tmp_path / "four", [], run={"finished": 1})
    warnings = RunDifference(str(tmp_path / "one"), str(tmp_path / "four")).summary.warnings
    assert "the first run is the newer one" in warnings[0]


def test_run_that_cannot_be_compared_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "old", [])
    write_run(tmp_path / "new", [])
    (tmp_path / "new" / "tables" / "changes").rename(tmp_path / "new" / "tables" / "gone")
    with pytest.raises(RunError, match=r"new: has no tables/changes"):
        RunDifference(str(tmp_path / "old"), str(tmp_path / "new"))
    broken = write_run(tmp_path / "broken", [row("orphan-ledger", 1, A, trouble="xyz")])
    assert broken.counts
    with pytest.raises(RunError, match="16 digits"):
        list(RunDifference(str(tmp_path / "broken"), str(tmp_path / "old")).changes())


def test_runs_on_another_file_system_are_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "old", [row("bookie-down", bookie=A)])
    write_run(tmp_path / "new", [])
    difference = RunDifference(f"file://{tmp_path}/old", f"file://{tmp_path}/new")
    assert difference.summary.counts["fixed"] == 1


def bkaudit(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments, prog_name="bkaudit")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    hostile = "bk\x1b[31m<b>|x"
    old = [row("orphan-ledger", 1, A), row("entry-lost", 2, missing=4)]
    write_run(tmp_path / "old", old, bookies=[(A, "read")])
    newer = [row("orphan-ledger", ledger, hostile) for ledger in range(100, 109)]
    write_run(
        tmp_path / "new",
        [row("below-ack-quorum", 2, missing=1), *newer],
        classes=[(2, "below-ack-quorum", "below-ack-quorum")],
        bookies=[(A, "unread")],
    )
    return str(tmp_path / "old"), str(tmp_path / "new")


def test_diff_as_text_has_numbers_samples_and_warnings(pair: tuple[str, str]) -> None:
    outcome = bkaudit("diff", *pair)
    assert outcome.exit_code == 0
    shown = outcome.stdout
    assert "9 new: orphan-ledger 9" in shown
    assert "and 4 more; --format jsonl lists all" in shown
    assert "error below-ack-quorum: ledger 2; was critical; 1 entry missing, were 4; first" in shown
    assert "1 not checked again, so neither found nor ruled out: orphan-ledger 1" in shown
    assert f"warning    {A} was not read in the newer run" in shown
    assert shown.splitlines()[-1].endswith("9 new, 1 better, 1 unseen")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("width", [60, 100])
def test_diff_as_text_is_as_wide_as_the_terminal(
    pair: tuple[str, str], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = bkaudit("diff", *pair).stdout.splitlines()
    assert width - 30 < max(map(len, lines)) <= width


def test_diff_as_jsonl_has_every_changed_finding(pair: tuple[str, str]) -> None:
    outcome = bkaudit("diff", *pair, "--format", "jsonl")
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [line["change"] for line in lines] == ["better", *["new"] * 9, "unseen"]
    assert (lines[0]["ledger_id"], lines[0]["previous_severity"], lines[0]["previous_missing"]) == (
        "2",
        "critical",
        4,
    )
    assert "not read in the newer run" in outcome.stderr


def test_diff_as_json_and_markdown(pair: tuple[str, str]) -> None:
    value = json.loads(bkaudit("diff", *pair, "--format", "json").stdout)
    assert value["schema"] == "bookkeeper-auditor/diff/2"
    schema = json.loads((SCHEMAS / "diff.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(value, schema)
    lines = bkaudit("diff", *pair, "--format", "jsonl").stdout.splitlines()
    for line in lines:
        jsonschema.validate(json.loads(line), {**schema["$defs"]["changed"], "$schema": schema["$schema"]})
    assert len(lines) == 11
    assert (value["counts"]["new"], len(value["samples"])) == (9, 7)
    shown = bkaudit("diff", *pair, "--format", "markdown").stdout
    assert "### 9 new" in shown
    assert "<b>" not in shown
    assert "\x1b" not in shown


def test_diff_of_a_run_with_itself_reports_no_findings(tmp_path: Path) -> None:
    write_run(tmp_path / "one", [])
    shown = bkaudit("diff", str(tmp_path / "one"), str(tmp_path / "one")).stdout
    assert shown.splitlines()[-1] == "HEALTHY to HEALTHY: neither run has findings"


def test_many_findings_are_compared_by_fingerprint(tmp_path: Path) -> None:
    """The comparison keeps three columns of each finding. Only changed findings become Python objects."""
    count = 200_000
    numbers = [f"{number:016x}" for number in range(2 * count)]
    for name, first in (("old", 0), ("new", 1)):
        write_run(tmp_path / name, [])
        base = row("orphan-ledger", 1, A)
        columns: dict[str, list[Any]] = {
            key: [base.get(key)] * count for key in pq.read_schema(_part(tmp_path / name)).names
        }
        columns["trouble"] = columns["fingerprint"] = numbers[first : first + count]
        schema = pq.read_schema(_part(tmp_path / name))
        pq.write_table(pa.table(columns, schema=schema), _part(tmp_path / name))
    counts = RunDifference(str(tmp_path / "old"), str(tmp_path / "new")).summary.counts
    assert (counts["same"], counts["new"], counts["fixed"]) == (count - 1, 1, 1)


def _part(run: Path) -> Path:
    return run / "tables" / "changes" / "part-00000.parquet"
