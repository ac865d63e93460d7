"""Rules for the outcome of a call with a fault, a disturbed stream or a signal.

1. There is never an exit code 70, a traceback or a hang.
2. A stream changes nothing: the exit code is that of the call without it. The only exception is standard
   output that fails for another reason than a reader that left: this is exit code 4.
3. After a fault that no command can tolerate, the exit code is one of `Fault.codes`.
4. After any other fault that the program can see, 0 is allowed in two cases. The output is that of the
   undisturbed call, or standard error names the damaged object.
5. An error is one line that names the object.
"""

from __future__ import annotations

import re
import signal

from tests.hostile.children import HUNG, Outcome, Streams, plain
from tests.hostile.faults import FAILURES, Fault

CODES = {0, 1, 130, *FAILURES}
_LONGEST_LINE = 1_000
_NOTICE = re.compile(r"^(Usage|Try|Error|Warning): |^bkaudit: |^$|^\s")


def general(outcome: Outcome, signals: tuple[int, ...] = ()) -> list[str]:
    """Return problems that no call may have, whatever happened."""
    wrong = []
    texts = outcome.stdout + outcome.stderr
    if outcome.code == HUNG:
        wrong.append(f"no end within {outcome.seconds:.0f} s")
    elif outcome.code not in CODES and outcome.code not in signals:
        wrong.append(f"exit {outcome.code}")
    if "Traceback (most recent call last)" in texts:
        wrong.append("a traceback")
    if "internal error (this is a bug)" in texts:
        wrong.append("called itself a bug")
    return wrong


def of_fault(undisturbed: Outcome, outcome: Outcome, fault: Fault) -> list[str]:
    """Return problems of a call with a fault."""
    wrong = general(outcome)
    if wrong:
        return wrong
    same = is_same(undisturbed, outcome)
    is_named = any(name in outcome.stderr for name in fault.names)
    if not fault.fired():
        return [] if same else [f"the fault did not come about, and yet exit {outcome.code} differs"]
    if fault.codes is not None and outcome.code not in fault.codes:
        # A command that prints what it found has done its work: doctor, and a run of which nothing was asked.
        if not (same and outcome.code == undisturbed.code):
            wrong.append(f"exit {outcome.code}, not {sorted(fault.codes)}")
        elif outcome.code == 0:
            wrong.append("exit 0 as if nothing had happened, although it cannot do without")
    elif outcome.code == 0 and fault.is_visible and not same and not is_named:
        wrong.append("exit 0 with another output")
    if outcome.code in (2, 4, 5) and not same:
        wrong += error_line(outcome, fault, is_named)
    return wrong


def error_line(outcome: Outcome, fault: Fault, is_named: bool) -> list[str]:
    """Return problems of the error line of a command that ended with an error."""
    lines = [line for line in outcome.stderr.splitlines() if line]
    errors = [line for line in lines if line.startswith(("bkaudit: ", "Error: "))]
    if not errors:
        # What doctor prints is a list of answers, and watch has a line for each round.
        return [] if any(name in outcome.stdout for name in fault.names) else ["no error line"]
    wrong = []
    if lines[-1] != errors[-1]:
        wrong.append("the error is not the last line")
    if len(errors[-1]) > _LONGEST_LINE:
        wrong.append(f"an error of {len(errors[-1])} characters")
    if not is_named and not any(name in outcome.stdout for name in fault.names):
        wrong.append("the error does not name the object")
    return wrong


def of_streams(expected: Outcome, outcome: Outcome, streams: Streams) -> list[str]:
    """Return problems of a call with disturbed streams: its exit code must be that with whole streams."""
    wrong = general(outcome)
    code = expected.code
    if 1 in streams.full and expected.stdout and code != 2:
        code = 4
    if not wrong and outcome.code != code:
        wrong.append(f"exit {outcome.code}, not {code}")
    return wrong


def of_signal(expected: Outcome, outcome: Outcome, number: int, command: str) -> list[str]:
    """Return problems of a call that received a signal: it must end by the signal, or have ended before.

    A person ends ``watch`` by a signal, so ``watch`` may then end with 0.
    """
    allowed = (-number, 128 + number, *([0] if command == "watch" else []))
    wrong = general(outcome, allowed)
    if not wrong and outcome.code not in (*allowed, expected.code):
        wrong.append(f"exit {outcome.code} after {signal.Signals(number).name}")
    return wrong


def is_same(first: Outcome, second: Outcome) -> bool:
    """Return whether two calls have the same exit code, standard output and files."""
    return (first.code, plain(first.stdout), first.files) == (second.code, plain(second.stdout), second.files)
