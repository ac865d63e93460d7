"""Commands that write: each has a kind of action, and is completed only with objects the gate permits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import auditor
from auditor.actions.commands import (
    action_kind_of_command,
    collect_garbage_command,
    compaction_command,
    decommission_command,
    fill_command,
    permit_command,
)
from auditor.actions.gate import permit
from auditor.actions.objects import bookie, ledger
from auditor.checks import ALL_CHECKS
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed, Refused
from tests.actions.test_gate import HOLD, Run
from tests.syntax import syntax_nodes

COMMANDS = {command.text: command for check in ALL_CHECKS for command in check.commands}
WRITING = sorted(text for text, command in COMMANDS.items() if command.risk_level in ("writes", "danger"))
BLANKS = {"BOOKIE": "bk1:3181", "ID": "42"}
DELETE = "bookkeeper shell deleteledger -l ID"


def allowed(run: Any, kind: ActionKind, *objects: Any) -> Allowed:
    answer = permit(run, kind, objects)
    assert isinstance(answer, Allowed)
    return answer


def test_all_writing_page_commands_and_cookie_generate_have_a_kind() -> None:
    kinds = {text for text in COMMANDS if action_kind_of_command(text) is not None}
    assert kinds - {*WRITING} == {
        "bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE"
    }
    assert {*WRITING} <= kinds


@pytest.mark.parametrize("text", WRITING)
def test_writing_command_needs_a_permission(text: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the gate did not permit"):
        fill_command(text, BLANKS)
    run = Run(tmp_path, HOLD | {"forbids": [str(kind) for kind in ActionKind]})
    refused = permit(run, ActionKind.DECOMMISSION, [bookie("bk1:3181")])
    with pytest.raises(TypeError, match="the gate did not permit"):
        fill_command(text, BLANKS, refused)  # type: ignore[arg-type]  # what a careless caller would do


def test_permission_is_valid_only_for_its_kind_and_objects(tmp_path: Path) -> None:
    run = Run(tmp_path, unowned=(41, 42))
    assert fill_command(DELETE, BLANKS, allowed(run, ActionKind.DELETE_LEDGER, ledger(42))).endswith("-l 42")
    for permission in (
        allowed(run, ActionKind.DELETE_LEDGER, ledger(41)),
        allowed(run, ActionKind.RECOVER, ledger(42)),
    ):
        with pytest.raises(TypeError, match="the gate did not permit delete-ledger"):
            fill_command(DELETE, BLANKS, permission)


def test_read_only_command_needs_no_permission() -> None:
    assert fill_command("bookkeeper shell ledgermetadata -l ID", BLANKS).endswith("-l 42")


@pytest.mark.parametrize("text", WRITING)
def test_hold_on_an_object_of_a_command_refuses_it(text: str, tmp_path: Path) -> None:
    kinds = [str(kind) for kind in ActionKind]
    rows = [
        HOLD | {"forbids": kinds},
        HOLD | {"object": "source", "key": "metadata", "forbids": kinds},
        HOLD | {"object": "ledger", "key": "0/42", "scope_id": 0, "ledger_id": 42, "forbids": kinds},
    ]
    answer = permit_command(Run(tmp_path / "held", *rows, unowned=(42,)), text, BLANKS)
    # Replication is switched off for a whole cluster, which no hold is on.
    assert isinstance(answer, Allowed if text.endswith("autorecovery -d") else Refused)
    assert isinstance(permit_command(Run(tmp_path / "free", unowned=(42,)), text, BLANKS), Allowed)


def test_recover_of_a_bookie_is_refused_while_a_ledger_is_held(tmp_path: Path) -> None:
    row = HOLD | {"object": "ledger", "key": "0/7", "scope_id": 0, "ledger_id": 7, "forbids": ["recover"]}
    run = Run(tmp_path, row)
    answer = permit_command(run, "bookkeeper shell recover -sk -sku BOOKIE", BLANKS)
    assert isinstance(answer, Refused)
    assert [hold.key for hold in answer.holds] == ["0/7"]
    assert isinstance(permit_command(run, "bookkeeper shell recover -l ID BOOKIE", BLANKS), Allowed)


CLUSTER_HOLDS: list[dict[str, Any]] = [
    HOLD | {"object": "ledger", "key": "0/7", "scope_id": 0, "ledger_id": 7, "forbids": ["recover"]},
    HOLD | {"key": "bk9:3181", "forbids": ["recover"]},
    HOLD | {"object": "source", "key": "bookie bk9:3181", "forbids": ["recover"]},
]


@pytest.mark.parametrize("row", CLUSTER_HOLDS, ids=lambda row: str(row["key"]))
@pytest.mark.parametrize("text", ["autorecovery -e", "triggeraudit", "lostbookierecoverydelay -s 0"])
def test_cluster_wide_recovery_command_is_refused_by_any_recover_hold(
    text: str, row: dict[str, Any], tmp_path: Path
) -> None:
    """No operator chooses which ledgers AutoRecovery copies, or from which bookies."""
    command = f"bookkeeper shell {text}"
    answer = permit_command(Run(tmp_path / "held", row), command, BLANKS)
    assert isinstance(answer, Refused)
    assert [hold.key for hold in answer.holds] == [row["key"]]
    compact_run = Run(tmp_path / "other", row | {"forbids": ["compact"]})
    assert isinstance(permit_command(compact_run, command, BLANKS), Allowed)
    assert isinstance(permit_command(Run(tmp_path / "free"), command, BLANKS), Allowed)


@pytest.mark.parametrize("text", ["recover -l ID BOOKIE", "readledger -l ID -r"])
def test_command_that_closes_a_ledger_is_refused_for_an_open_one(text: str, tmp_path: Path) -> None:
    run = Run(tmp_path, opened=(42,))
    answer = permit_command(run, f"bookkeeper shell {text}", BLANKS)
    assert isinstance(answer, Refused)
    assert answer.sentence.startswith("the ledger is open: ")
    closed = permit_command(run, f"bookkeeper shell {text}", BLANKS | {"ID": "43"})
    assert isinstance(closed, Allowed)


def test_bookie_requests_need_a_permission_of_their_kind(tmp_path: Path) -> None:
    run = Run(tmp_path)
    collect = allowed(run, ActionKind.COLLECT, bookie("bk1:3181"))
    compact = allowed(run, ActionKind.COMPACT, bookie("bk1:3181"))
    assert collect_garbage_command(collect, "http://h/gc") == "curl -X PUT http://h/gc"
    assert "forceMajor" in compaction_command(compact, "http://h/gc", is_major=True)
    with pytest.raises(TypeError):
        collect_garbage_command(compact, "http://h/gc")
    with pytest.raises(TypeError):
        compaction_command(collect, "http://h/gc", is_major=False)
    with pytest.raises(TypeError):
        decommission_command(allowed(run, ActionKind.DECOMMISSION, bookie("bk2:3181")), "bk1:3181")


WRITING_WORDS = re.compile(
    r"curl -X PUT|(bookkeeper shell|^) ?(deleteledger|decommissionbookie|recover|bookieformat|rebuild-db-"
    r"|cookie_(create|update|delete)|regenerate-interleaved) "
)


def filled_in_texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the fixed parts of each f-string that contains a value."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr) and any(
            isinstance(part, ast.FormattedValue) for part in node.values
        ):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))


def test_only_actions_and_plan_fill_in_writing_commands() -> None:
    package = Path(auditor.__file__).parent
    subpackages = set()
    for path in package.rglob("*.py"):
        text = path.read_text("utf-8")
        if "curl -X" in text or any(map(WRITING_WORDS.search, filled_in_texts(syntax_nodes(path)))):
            subpackages.add(path.relative_to(package).parts[0])
    # A plan puts its commands together itself: each of its steps passes the gate.
    assert subpackages - {"plan"} == {"actions"}
