"""Rounds of the trial: a call, and the same call with a fault, a disturbed stream or a signal."""

from __future__ import annotations

import shlex
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.hostile import judge
from tests.hostile.arguments import Call, commands, draw
from tests.hostile.children import Outcome, SignalEvent, Streams, files_below, run
from tests.hostile.faults import Bench, Fault, draw_fault
from tests.hostile.ground import TrialData

SLOW_SHARE = 0.04
"""So much of the calls are of commands with work for Spark, which take a hundred times as long."""
SLOW_VARIANTS = 3
NEW_PYTHON_SHARE = 0.1
"""So much of those run in a new Python, with a Spark of their own."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LIMIT_S = 300.0
PERIOD_S = 60.0


@dataclass
class WrongOutcome:
    """A call that did not end as it must, with the seed of its round."""

    seed: int
    text: str


@dataclass
class Totals:
    """The totals of a trial: calls by command and kind of fault, exit codes, and wrong outcomes."""

    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    calls: int = 0
    rounds: int = 0
    unstable: int = 0
    wrong: list[WrongOutcome] = field(default_factory=list)

    def text(self) -> str:
        """Return the totals, by command and by kind of fault."""
        lines = []
        for command in sorted({command for command, _ in self.cells}):
            kinds = {kind: count for (name, kind), count in self.cells.items() if name == command}
            cells = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            lines.append(f"{command}: {sum(kinds.values())} ({cells})")
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        lines.append(f"exit codes of disturbed calls: {codes}")
        lines.append(
            f"{self.rounds} rounds, {self.calls} calls, {len(self.wrong)} wrong, "
            f"{self.unstable} whose undisturbed output varies"
        )
        return "\n".join(lines)


@dataclass
class Trial:
    """The state that all rounds of a trial share."""

    trial_data: TrialData
    bench: Bench
    spark: Path
    say: Callable[[str], None]
    totals: Totals = field(default_factory=Totals)
    only: str | None = None
    has_new_python: bool = True
    slow_share: float = SLOW_SHARE
    shows_output: bool = False
    outcomes: dict[tuple[str, ...], Outcome] = field(default_factory=dict)

    def play(self, seed: int) -> None:
        """Play one round. The seed determines everything about it."""
        random = Random(seed)
        names = sorted(commands())
        slow = [name for name in names if Call(name).is_slow]
        quick = [name for name in names if name not in slow]
        words = random.choice(slow if random.random() < self.slow_share else quick)
        if self.only is not None:
            words = random.choice([name for name in names if self.only in " ".join(name)])
        is_slow = Call(words).is_slow
        # Few different calls of slow commands, so that the undisturbed ones are made once.
        call = draw(self.trial_data, words, Random(random.randrange(SLOW_VARIANTS)) if is_slow else random)
        is_new = call.is_slow and self.has_new_python and random.random() < NEW_PYTHON_SHARE
        undisturbed = self._undisturbed(call, seed, is_new)
        self.totals.rounds += 1
        choice = random.random()
        self.trial_data.lay_out(source.copied for source in call.inputs)
        fault = draw_fault(self.bench, call, random) if choice < 0.75 else None
        expected = undisturbed
        if fault is not None:
            expected = self._call(call, is_new, fault=fault)
            self._judge(
                call, seed, fault.kind, fault.text, expected, self._of_fault(call, expected, fault, is_new)
            )
        if fault is None or random.random() < 0.25:
            self._disturb(call, seed, fault, expected, random, is_new)

    def _of_fault(self, call: Call, outcome: Outcome, fault: Fault, is_new: bool) -> list[str]:
        undisturbed = self.outcomes[tuple(call.words)]
        wrong = judge.of_fault(undisturbed, outcome, fault)
        if any("exit 0" in text or "did not come about" in text for text in wrong):
            again = self._call(call, is_new)
            if not judge.is_same(undisturbed, again):
                self.totals.unstable += 1
                self.say(f"  undisturbed output varies: {shlex.join(call.words)}")
                return []
        return wrong

    def _disturb(
        self, call: Call, seed: int, fault: Fault | None, expected: Outcome, random: Random, is_new: bool
    ) -> None:
        """Repeat a call with disturbed streams or a signal."""
        label = f"{fault.text}, " if fault is not None else ""
        if fault is None and random.random() < 0.3:
            number = random.choice(SIGNALS)
            event = SignalEvent(number, random.uniform(0, expected.seconds))
            outcome = self._call(call, is_new, event=event)
            text = f"{number.name} after {event.after_s:.3f} s"
            self._judge(
                call, seed, number.name, text, outcome, judge.of_signal(expected, outcome, number, call.name)
            )
            return
        streams, kind = draw_streams(expected, random)
        outcome = self._call(call, is_new, fault=fault, streams=streams)
        wrong = judge.of_streams(expected, outcome, streams)
        self._judge(call, seed, kind, f"{label}{streams}", outcome, wrong)

    def _undisturbed(self, call: Call, seed: int, is_new: bool) -> Outcome:
        key = tuple(call.words)
        if key not in self.outcomes:
            self.outcomes[key] = self._call(call, is_new)
            self._judge(call, seed, "none", "nothing", self.outcomes[key], judge.general(self.outcomes[key]))
        return self.outcomes[key]

    def _call(
        self,
        call: Call,
        is_new: bool,
        fault: Fault | None = None,
        streams: Streams | None = None,
        event: SignalEvent | None = None,
    ) -> Outcome:
        self.trial_data.lay_out({source.copied for source in call.inputs})
        with fault.apply() if fault is not None else nullcontext():
            spark = None if is_new else self.spark
            outcome = run(
                call.words, self.trial_data.place, streams=streams, event=event, spark=spark, limit_s=LIMIT_S
            )
        outcome.files = files_below(self.trial_data.place / "new")
        self.totals.calls += 1
        return outcome

    def _judge(self, call: Call, seed: int, kind: str, text: str, outcome: Outcome, wrong: list[str]) -> None:
        self.totals.cells[call.name, kind] += 1
        if kind != "none":
            self.totals.codes[outcome.code] += 1
        if not wrong:
            return
        last = outcome.stderr.strip().splitlines()[-3:]
        line = f"seed {seed}: {shlex.join(call.words)} [{text}]: {'; '.join(wrong)}"
        self.totals.wrong.append(WrongOutcome(seed, line))
        self.say(f"{line}\n    exit {outcome.code}, stderr ends: {' / '.join(last)[-600:]}")
        if self.shows_output:
            self.say(f"{outcome.stdout[-4000:]}\n{outcome.stderr[-4000:]}")


def draw_streams(expected: Outcome, random: Random) -> tuple[Streams, str]:
    """Return disturbed streams, and their name in the summary."""
    numbers = random.choice(((1,), (2,), (1, 2)))
    label = {(1,): "stdout", (2,): "stderr", (1, 2): "both"}[numbers]
    moment = random.choice(("closed", "start", "midway", "end", "full"))
    sizes = {1: len(expected.stdout.encode()), 2: len(expected.stderr.encode())}
    if moment == "closed":
        return Streams(closed=numbers), f"{label} closed"
    if moment == "full":
        return Streams(full=numbers), f"{label} full"
    share = {"start": 0.0, "midway": random.uniform(0.1, 0.9), "end": 1.0}[moment]
    byte_limits = {number: min(int(sizes[number] * share), max(sizes[number] - 1, 0)) for number in numbers}
    return Streams(byte_limits=byte_limits), f"{label} left at {moment}"


def play_rounds(trial: Trial, seed: int, deadline: float, most: int) -> Totals:
    """Play rounds until the deadline, or until ``most`` are played, each with the next seed."""
    reported_s = time.monotonic()
    while time.monotonic() < deadline and trial.totals.rounds < most:
        trial.play(seed)
        seed += 1
        if time.monotonic() - reported_s > PERIOD_S:
            reported_s = time.monotonic()
            totals = trial.totals
            trial.say(
                f"{totals.rounds} rounds, {totals.calls} calls, {len(totals.wrong)} wrong; next seed {seed}"
            )
    return trial.totals
