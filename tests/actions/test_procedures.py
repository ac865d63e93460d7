"""Commands that change a cluster: the modules that may contain their text, and who may complete them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.actions import procedures as module
from auditor.actions.gate import permit
from auditor.actions.objects import bookie, ledger
from auditor.actions.procedures import Procedure
from auditor.checks import ALL_CHECKS
from auditor.model.holds import ActionKind
from auditor.model.permission import ActionObject, Allowed
from auditor.model.plan import CommandRole
from tests.actions.test_gate import Run
from tests.syntax import syntax_nodes

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "auditor"

WRITES = re.compile(
    r"""
      \brecover\ (?!-q|-dr)(?:-|[A-Z]{2}|[{%])     # reads with -q and -dr
    | \bdeleteledger\ [-{%]
    | \bcookie_(?:create|delete|update)\b
    | \bupdatecookie\ -
    | \brebuild-(?:db|bookkeeper)-
    | \bregenerate-interleaved-storage-index-file\b(?!.*-dryRun)
    | -restorefromfile\b
    | \bdecommissionbookie\ [-{%]
    | \bupdateBookieInLedger\ -
    | \bupdateledgers\ -
    | \b(?:bookieformat|metaformat|nukeexistingcluster|initnewcluster|initbookie)\b
    | \btriggeraudit\b
    | \blostbookierecoverydelay\ -s
    | \bautorecovery\ -
    | \bforceMajor\b|\bforceMinor\b
    | \bcurl\ (?:-X\ )?-?(?:PUT|POST|DELETE|d)\b|\bcurl\ .*-X\ (?:PUT|POST|DELETE)
    | /api/v1/(?:bookie/gc|autorecovery|ledger/delete)
    """,
    re.VERBOSE,
)

EXEMPT = {
    "checks/manual.py": "what commands of several manual pages do and risk, with words in capitals",
    # These two move to auditor/actions; then their lines go.
    "runs/space_steps.py": "commands of space steps",
    "reports/decommission.py": "what stands in a bookie's way, and the way out",
}


def texts(module: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string of a module, f-strings joined, except manual pages of checks."""
    skipped: set[int] = set()
    for node in syntax_nodes(module):
        if isinstance(node, ast.FunctionDef) and module.parent.name == "checks":
            first = node.body[0]
            # The docstring of a check is its manual page: templates with words in capitals.
            if node.name.replace("_", "-") in CHECKS and isinstance(first, ast.Expr):
                skipped.add(id(first.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(parts)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


CHECKS = {check.id for check in ALL_CHECKS}


def test_writing_commands_are_only_in_the_actions_package() -> None:
    misplaced_commands = {
        f"{name}:{line}: {text.strip()[:60]}"
        for module in sorted(PACKAGE.rglob("*.py"))
        if (name := module.relative_to(PACKAGE).as_posix()) not in EXEMPT and not name.startswith("actions/")
        for line, text in texts(module)
        if WRITES.search(text)
    }
    assert misplaced_commands == set()


@pytest.mark.parametrize("name", EXEMPT)
def test_exempt_module_has_a_writing_command(name: str) -> None:
    assert any(WRITES.search(text) for _, text in texts(PACKAGE / name))


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("bookkeeper shell recover -l ID BOOKIE", True),
        ("bookkeeper shell recover -dr -l ID BOOKIE", False),
        ("bookkeeper shell recover -q BOOKIE", False),
        ("recover BOOKIE", True),
        ("recover closes these ledgers while their writers use them", False),
        ("regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun", False),
        ("regenerate-interleaved-storage-index-file -l ID -password PASSWORD", True),
        ("curl -X PUT http://h:8080/api/v1/bookie/gc", True),
        ("a rehearsal of decommissionbookie", False),
        ("decommissionbookie -bookieid {}", True),
        ("ledgermetadata -l ID -dumptofile FILE", False),
    ],
)
def test_pattern_matches_only_writing_commands(text: str, writes: bool) -> None:
    assert bool(WRITES.search(text)) is writes


def procedures() -> dict[str, Procedure]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Procedure)}


def allowed(path: Path, kind: ActionKind, *objects: ActionObject) -> Allowed:
    """Return the gate's permission on a run without holds."""
    answer = permit(Run(path / kind / str(len(objects)) / objects[0].kind, unowned=(42,)), kind, objects)
    assert isinstance(answer, Allowed)
    return answer


BLANKS = {"BOOKIE": "bk1:3181", "ID": "42"}


@pytest.mark.parametrize("name", procedures())
def test_procedure_needs_a_permission_of_its_kind_and_objects(name: str, tmp_path: Path) -> None:
    procedure = procedures()[name]
    kind = procedure.kind
    other_kind = next(candidate for candidate in ActionKind if candidate is not kind)
    objects = (bookie("bk1:3181"), ledger(42))
    typed = procedure.fill(allowed(tmp_path, kind, *objects), BLANKS)
    assert [line.role for line in typed] == [line.role for line in procedure.lines]
    with pytest.raises(ValueError, match="was permitted, not"):
        procedure.fill(allowed(tmp_path, other_kind, *objects), BLANKS)
    for part in objects:
        with pytest.raises(ValueError, match="was not permitted for"):
            procedure.fill(allowed(tmp_path, kind, part), BLANKS)


@pytest.mark.parametrize("name", procedures())
def test_dry_run_and_backup_lines_of_a_procedure_do_not_write(name: str) -> None:
    for line in procedures()[name].lines:
        if line.role in (CommandRole.DRY_RUN, CommandRole.BACK_UP):
            assert not WRITES.search(line.text), line.text


def test_only_make_step_creates_plan_steps() -> None:
    """Only `make_step`, with the gate's permission; a plan file is read by the types of its fields."""
    callers = {
        (module.relative_to(PACKAGE).as_posix(), function.name)
        for module in sorted(PACKAGE.rglob("*.py"))
        for function in syntax_nodes(module)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and "PlanStep" in (getattr(node.func, "attr", None), getattr(node.func, "id", None))
    }
    assert callers == {("plan/parts.py", "make_step")}
