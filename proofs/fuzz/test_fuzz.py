"""Every reader returns a value or raises a declared error, whatever bytes it gets.

``python -m proofs.fuzz`` is the long form, which learns from coverage. These tests read golden bytes and
the inputs that it kept. They mutate them for `SHARE_S` seconds of processor time per target.
"""

from __future__ import annotations

import random
import time

import pytest

from proofs.fuzz.corpus import kept
from proofs.fuzz.found import FOUND
from proofs.fuzz.target import Target, mutated, scratch
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
def test_a_reader_gives_a_value_or_refuses(target: Target) -> None:
    inputs = [*target.beginnings(), *kept().get(target.name, ())]
    assert any(execute(target, data) is None for data in inputs), "nothing is read"
    chance, end, runs = random.Random(target.name), time.process_time() + SHARE_S, 0
    while time.process_time() < end:
        execute(target, mutated(inputs, chance, target.most))
        runs += 1
    assert runs > 1


@pytest.mark.parametrize(("name", "data", "said"), FOUND)
def test_what_was_found_is_refused_as_it_should_be(name: str, data: bytes, said: str | None) -> None:
    refused = execute(BY_NAME[name], data)
    assert (None if refused is None else str(refused).replace(str(scratch()), ".")) == said


def test_what_is_kept_is_of_targets() -> None:
    assert kept().keys() <= BY_NAME.keys()
