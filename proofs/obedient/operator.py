"""An operator who carries out everything that a run prints, literally, on the bookies it names.

The operator carries out the groups of instructions of a run in random order. The groups are the list of
actions, the plan, and the steps that free space. Further groups are the answer of ``decommission`` and the
commands on pages of findings. After each instruction the writers add entries. A started bookie collects
garbage, as it would within ten minutes.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from auditor.actions.commands import action_kind_of_command, fill_command, permit_command
from auditor.checks import CHECK_BY_ID
from auditor.decommission.rehearse import rehearse
from auditor.errors import RunUsageError
from auditor.model.action_facts import Action
from auditor.model.decommission import Answer
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed
from auditor.model.plan import CommandRole, PlanStep, StepState
from auditor.plan.answers import read_store_state
from auditor.plan.plan_file import make_plan, read_plan, write_plan
from auditor.plan.step_checks import check_plan, planned_ledger_ids
from auditor.reports.advice import placeholders_of
from auditor.runs.load_space import space_view
from auditor.runs.reader import RunReader
from proofs.obedient.cluster import TrialCluster

LOOK, SAVE, HAND, DO, _ = CommandRole
MARKS_S = 25
"""Seconds to wait for replication workers."""
COMMAND_S = 75
"""Longest time of a command in seconds. decommissionbookie sleeps 30 s before its first check."""
PAGE_COMMANDS = 8
"""Number of commands on pages of findings to run for one audit."""
_WORDS = re.compile(r"\b[A-Z]{2,}\b")
"""A placeholder in a command that the user must replace."""


@dataclass
class OperatorResults:
    """The results of all instructions.

    Args:
        counts: Numbers of carried out instructions, by group and kind.
        failed: Instructions that could not be carried out, with their errors.
        wrong: Descriptions of instructions that must never be printed.
        instructions: Every instruction in order.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)


class Operator:
    """An operator who carries out the instructions that a run prints."""

    def __init__(self, cluster: TrialCluster) -> None:
        self._cluster = cluster
        self._bookies = cluster.bookies
        self.obeyed = OperatorResults()
        self._typed: set[str] = set()

    def obey(self, run: RunReader) -> list[str]:
        """Carry out all instructions of a run; return their texts in order."""
        groups: list[Callable[[RunReader], None]] = [
            self._obey_plan, self._obey_actions, self._free_space, self._decommission, self._obey_pages,
        ]  # fmt: skip
        self._cluster.random.shuffle(groups)
        before = len(self.obeyed.instructions)
        for group in groups:
            group(run)
        return self.obeyed.instructions[before:]

    def _do(self, name: str, text: str, deed: Callable[[], object]) -> bool:
        """Carry out one instruction and record it; return whether it succeeded."""
        self.obeyed.instructions.append(f"{name}: {text}")
        try:
            deed()
        except (AssertionError, RuntimeError, OSError) as error:
            self.obeyed.failed.append(f"{name}: {text}: {str(error)[-600:]}")
            return False
        finally:
            self._cluster.write_on()
        self.obeyed.counts[name] += 1
        return True

    def _obey_plan(self, run: RunReader) -> None:
        path = self._cluster.root / f"plan-{Path(run.path).name}.toml"
        write_plan(make_plan(run), str(path))
        plan = read_plan(str(path))
        for step in plan.steps:
            check = check_plan(plan, read_store_state(self._cluster.store.uri, planned_ledger_ids(plan)))
            state = check.steps[step.number - 1].state
            if state in (StepState.STILL_VALID, StepState.UNKNOWN):
                self._check_deletion(step)
                self._do(f"plan {step.kind}", step.about, partial(self._take, step))

    def _take(self, step: PlanStep) -> None:
        try:
            self._bookies.do(step, LOOK, SAVE, HAND, DO)
        finally:
            for command in step.commands:
                if command.role is HAND and command.text.startswith("start "):
                    self._collect(command.text.removeprefix("start "))
        if step.kind is ActionKind.WAIT or any("triggeraudit" in command.text for command in step.commands):
            self._await_workers()
        for ledger in step.ledgers if step.kind is ActionKind.DELETE_LEDGER else ():
            self._cluster.ledgers[int(ledger.ledger_id)].is_deleted = True

    def _check_deletion(self, step: PlanStep) -> None:
        if step.kind is ActionKind.DELETE_LEDGER:
            self._must_be_unowned(int(ledger.ledger_id) for ledger in step.ledgers)

    def _must_be_unowned(self, ledgers: Iterable[int]) -> None:
        for ledger in ledgers:
            truth = self._cluster.ledgers[ledger]
            if not truth.is_unowned and not truth.is_deleted:
                self.obeyed.wrong.append(f"ledger {ledger} of {truth.topic} was to be deleted")

    def _obey_actions(self, run: RunReader) -> None:
        for action in run.report.run.actions or ():
            kind = None if action["kind"] is None else ActionKind(action["kind"])
            if kind is ActionKind.STOP:
                self._stop(action)
            elif kind is ActionKind.START:
                for bookie in self._own(action["bookies"]):
                    self._do("action start", bookie, partial(self._start, bookie))

    def _stop(self, action: Action) -> None:
        text = action["text"]
        if text.startswith("copy the entries"):
            return  # the plan has the steps for this
        for bookie in self._own(action["bookies"]):
            self._do("action stop", f"{bookie}: {text}", partial(self._bookies.stop, bookie))
            if text.startswith("restart "):
                self._do("action start", f"{bookie}: {text}", partial(self._start, bookie))

    def _start(self, bookie: str) -> None:
        self._bookies.start(bookie)
        self._collect(bookie)

    def _collect(self, bookie: str) -> None:
        """Run garbage collection on a bookie if the bookie runs."""
        if bookie in self._cluster.store.registered():
            self._bookies.collect(bookie)

    def _free_space(self, run: RunReader) -> None:
        for step in space_view(run, "bookie").steps:
            if step.command is None or step.command.startswith("curl "):
                bookie = step.bookie_id
                what = f"{bookie}: {step.what}"
                self._do("space collect", what, partial(self._collect, bookie))

    def _decommission(self, run: RunReader) -> None:
        """Decommission the first bookie, in a random order, for which the run allows it; delete its disks."""
        names = sorted(row["bookie_id"] for row in run.table("bookies", ["bookie_id"]).to_pylist())
        self._cluster.random.shuffle(names)
        for name in names:
            try:
                answer = rehearse(run, [name])
            except RunUsageError:
                continue
            if answer.answer is Answer.NOW and name in self._bookies.ids:
                self._do("decommission", name, partial(self._take_out, name))
                return

    def _own(self, bookies: Sequence[str]) -> list[str]:
        """Return the given bookies that exist. Some ids are only in metadata."""
        return [bookie for bookie in bookies if bookie in self._bookies.ids]

    def _take_out(self, bookie: str) -> None:
        if bookie in self._bookies.ids:
            self._bookies.stop(bookie)
        self._cluster.write_on()
        self._bookies.shell(["decommissionbookie", "-bookieid", bookie], limit_s=COMMAND_S)
        shutil.rmtree(self._bookies.place(bookie), ignore_errors=True)

    def _obey_pages(self, run: RunReader) -> None:
        """Run the completed commands on pages of findings, as ``bkaudit explain`` prints them."""
        commands = [command for command in dict.fromkeys(_commands_of(run)) if command[0] not in self._typed]
        self._cluster.random.shuffle(commands)
        for text, kind, bookie in commands[:PAGE_COMMANDS]:
            self._typed.add(text)
            words = shlex.split(text)[2:]
            if kind is ActionKind.DELETE_LEDGER:
                self._must_be_unowned([int(words[-1])])
            if kind is ActionKind.DECOMMISSION:
                done = self._do("page decommission", text, partial(self._take_out, words[-1]))
            else:
                done = self._do(f"page {kind}", text, partial(self._type, kind, words, bookie))
            if done and kind is ActionKind.DELETE_LEDGER:
                self._cluster.ledgers[int(words[-1])].is_deleted = True

    def _type(self, kind: ActionKind, words: list[str], bookie: str | None) -> None:
        """Run a command. Stop its bookie during a command that rebuilds an index."""
        if kind is ActionKind.REBUILD_INDEX and bookie is not None:
            self._bookies.stop(bookie)
        self._bookies.shell(words, bookie, limit_s=COMMAND_S)
        if kind is ActionKind.REBUILD_INDEX and bookie is not None:
            self._start(bookie)

    def _await_workers(self) -> None:
        """Wait until no ledger is marked as under-replicated, for at most `MARKS_S` seconds."""
        end = time.monotonic() + MARKS_S
        while self._cluster.store.snapshot().marks and time.monotonic() < end:
            self._cluster.write_on()
            time.sleep(1)


def _commands_of(run: RunReader) -> Iterable[tuple[str, ActionKind, str | None]]:
    """Yield the completed commands of findings that change something: text, kind, and bookie or None."""
    storages = {
        row["bookie_id"]: row["storage"] for row in run.table("bookies", ["bookie_id", "storage"]).to_pylist()
    }
    for finding in run.findings:
        check = CHECK_BY_ID.get(finding.id)
        blanks = placeholders_of(finding, run.report.cluster.instance_id)
        for command in check.commands if check else ():
            kind = action_kind_of_command(command.text)
            if kind is None or (
                command.storage is not None and storages.get(blanks.get("BOOKIE", "")) != command.storage
            ):
                continue
            answer = permit_command(run, command.text, blanks, finding.scope_id or 0)
            if isinstance(answer, Allowed):
                text = fill_command(command.text, blanks, answer)
                if not _WORDS.search(text):
                    yield text, kind, blanks.get("BOOKIE")
