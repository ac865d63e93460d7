"""Tests of steps that rebuild an index, by kind of damage, and for entries found only in entry logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.model.holds import ActionKind
from tests.plan.made import ledger, make_finding, refusals_of, run_of, steps_of, typed_commands

SINGLE_COPY = ledger(7, "a:1", quorum=1)
REGENERATE = "bookkeeper shell regenerate-interleaved-storage-index-file -l 7 -password"
LEDGERS = [
    "look: bookkeeper shell check-db-ledgers-index", "do: bookkeeper shell rebuild-db-ledgers-index",
]  # fmt: skip
LOCATIONS = ["do: bookkeeper shell rebuild-db-ledger-locations-index"]


def lost_entry(*lost_entries: int, sure: bool = True, scope: int | None = None) -> Any:
    """Return an entry-lost finding, with the number of lost entries in each entry log of a:1."""
    logs = [{"bookie_id": "a:1", "log_id": 3, "lost_entries": count} for count in lost_entries]
    return make_finding("entry-lost", 7, sure=sure, scope=scope, lacking=["a:1"], in_entry_logs=logs or None)


def damaged_index(state: str, path: str = "/x/current/0/0/7.idx", ledger_id: int = 7) -> Any:
    return make_finding("index-unreadable", ledger_id, "a:1", path=path, state=state)


@pytest.mark.parametrize(
    ("storage", "listed", "commands"),
    [
        ("idx", False, [f"look: {REGENERATE} ANY -dryRun", f"do: {REGENERATE} PASSWORD"]),
        ("rocksdb", False, [*LEDGERS, *LOCATIONS]),
        ("rocksdb", True, LOCATIONS),
    ],
)
def test_entries_found_only_in_entry_logs_are_indexed_again(
    storage: str, listed: bool, commands: list[str], tmp_path: Path
) -> None:
    index = [{"scope_id": 0, "ledger_id": 7, "bookie_id": "a:1", "state": "ok"}] if listed else []
    run = run_of(
        tmp_path,
        [lost_entry(0, 3, 3)],
        {"a:1": {"storage": storage}},
        ledgers=[SINGLE_COPY],
        availability=index,
    )
    [step] = steps_of(run, ActionKind.REBUILD_INDEX)
    assert typed_commands(step) == ["by hand: stop the bookie a:1", *commands, "by hand: start a:1"]
    assert refusals_of(run) == {}


@pytest.mark.parametrize(
    ("finding", "reason"),
    [
        (lost_entry(), "no-copy"),
        (lost_entry(0), "no-copy"),
        (lost_entry(3, sure=False), "no-copy"),
        (lost_entry(3, scope=4), "shell-refuses"),
    ],
)
def test_lost_entry_that_a_rebuild_cannot_restore_is_refused(
    finding: Any, reason: str, tmp_path: Path
) -> None:
    run = run_of(tmp_path, [finding], {"a:1": {"storage": "idx"}}, ledgers=[SINGLE_COPY])
    assert steps_of(run, ActionKind.REBUILD_INDEX) == []
    assert list(refusals_of(run)) == [f"recover: {reason}"]


def test_index_file_with_a_damaged_header_is_moved_away_first(tmp_path: Path) -> None:
    """An index file that is cut inside a page stays in place, because it has the ledger's master key."""
    findings = [damaged_index("unreadable", "/x/a dir/7.idx"), damaged_index("cut", "/x/8.idx", 8)]
    run = run_of(tmp_path, findings, ledgers=[SINGLE_COPY])
    [step] = steps_of(run, ActionKind.REBUILD_INDEX)
    stop, move, *_ = typed_commands(step)
    assert stop == "by hand: stop the bookie a:1"
    assert move == "by hand: move to a directory that no bookie uses: '/x/a dir/7.idx'"


def test_databases_that_lack_a_ledger_are_rebuilt_in_one_step(tmp_path: Path) -> None:
    table = make_finding("index-unreadable", None, "a:1", path="/x/current/locations/1.sst", state="damaged")
    run = run_of(
        tmp_path,
        [table, lost_entry(3)],
        {"a:1": {"storage": "rocksdb"}},
        ledgers=[SINGLE_COPY],
        availability=[],
    )
    [step] = steps_of(run, ActionKind.REBUILD_INDEX)
    assert typed_commands(step)[1:-1] == [*LEDGERS, *LOCATIONS]
