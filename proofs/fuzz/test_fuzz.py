"""Every reader returns a value or raises a declared error, whatever bytes it gets.

``python -m proofs.fuzz`` is the long form, which learns from coverage. These tests read golden bytes and
the inputs that it kept. They mutate them for `SHARE_S` seconds of processor time per target.
"""

from __future__ import annotations

import random
import time

import pytest

from proofs.fuzz.corpus import kept_inputs
from proofs.fuzz.found import FUZZ_FINDINGS
from proofs.fuzz.target import Target, mutate, scratch
from proofs.fuzz.targets import BY_NAME, TARGETS

SHARE_S = 0.1

# The limit in seconds covers all executions of a test. Each takes milliseconds.
pytestmark = pytest.mark.timeout(60)


def execute(target: Target, data: bytes) -> Exception | None:
    try:
        return target.execute(data)
    except BaseException as error:
        error.add_note(f"{target.name}: {data!r}"[:4000])
        raise


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_reader_returns_a_value_or_raises_a_declared_error(target: Target) -> None:
    inputs = [*target.beginnings(), *kept_inputs().get(target.name, ())]
    assert any(execute(target, data) is None for data in inputs), "nothing is read"
    chance, end, runs = random.Random(target.name), time.process_time() + SHARE_S, 0
    while time.process_time() < end:
        execute(target, mutate(inputs, chance, target.most))
        runs += 1
    assert runs > 1


@pytest.mark.parametrize(("name", "data", "message"), FUZZ_FINDINGS)
def test_fuzz_finding_gives_its_recorded_message(name: str, data: bytes, message: str | None) -> None:
    refused = execute(BY_NAME[name], data)
    assert (None if refused is None else str(refused).replace(str(scratch()), ".")) == message


def test_kept_inputs_belong_to_known_targets() -> None:
    assert kept_inputs().keys() <= BY_NAME.keys()
