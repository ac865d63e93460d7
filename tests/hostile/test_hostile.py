"""The hostile trial in its short form. It can draw every command, and its judge reports wrong outcomes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random

import click
import pytest

from auditor.cli import main
from tests.hostile import judge
from tests.hostile.arguments import commands, draw
from tests.hostile.children import HUNG, Outcome, Streams
from tests.hostile.faults import FAILURES, Fault
from tests.hostile.ground import Source, TrialData

ROOT = Path(__file__).parents[2]
ROUNDS = 12
WHOLE = Outcome(0, "ledgers 4\n", "bkaudit: the run is in runs/1\n", 1.0)
FAULT = Fault("run cut", "runs/1/report.json cut", ("runs/1",), None, True, nullcontext)


@pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD and pidfd")
def test_hostile_rounds_without_spark_have_no_wrong_end() -> None:
    command = [sys.executable, "-m", "tests.hostile", "--rounds", str(ROUNDS), "--seed", "1", "--slow", "0"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout[-6000:]}\n{ended.stderr[-3000:]}"
    assert f"{ROUNDS} rounds, " in ended.stdout
    assert ", 0 wrong, " in ended.stdout


def test_drawn_arguments_of_every_command_are_parsed(tmp_path: Path) -> None:
    saved = Source(
        "dump://{place}/healthy/metadata.jsonl", "healthy/metadata.jsonl", ("healthy/bookies",), "1"
    )
    live = replace(saved, uri="zk://127.0.0.1:1/ledgers", metadata=None)
    trial_data = TrialData(tmp_path, {"healthy": saved, "live": live})
    assert {("audit",), ("plan", "check"), ("jobs/audit.py",)} <= commands().keys()
    for words, command in commands().items():
        for seed in range(20):
            call = draw(trial_data, words, Random(seed))
            arguments = call.words[len(words) :]
            with click.Context(main).scope():
                command.make_parser(click.Context(command)).parse_args(arguments)


def outcome(
    code: int, stdout: str = WHOLE.stdout, stderr: str = "bkaudit: runs/1/report.json is damaged\n"
) -> Outcome:
    return Outcome(code, stdout, stderr, 1.0)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (outcome(70, ""), "exit 70"),
        (outcome(-11, ""), "exit -11"),
        (Outcome(HUNG, "", "", 300.0), "no end within 300 s"),
        (outcome(5, "", "Traceback (most recent call last):\n"), "a traceback"),
        (outcome(4, "", "bkaudit: internal error (this is a bug)\n"), "called itself a bug"),
        (outcome(0, "ledgers 3\n", ""), "exit 0 with another output"),
        (outcome(5, "", "bkaudit: it is damaged\n"), "the error does not name the object"),
        (outcome(5, "", "bkaudit: runs/1 is damaged\nand more\n"), "the error is not the last line"),
        (outcome(5, "", f"bkaudit: runs/1: {'x' * 2_000}\n"), "an error of 2017 characters"),
        (outcome(5, "", ""), "no error line"),
    ],
)
def test_judge_reports_a_wrong_outcome(ended: Outcome, words: str) -> None:
    assert judge.of_fault(WHOLE, ended, FAULT) == [words]


@pytest.mark.parametrize(
    "ended",
    [WHOLE, outcome(5, ""), outcome(4, ""), outcome(2, ""), outcome(1, "1 finding\n"), outcome(0, "3\n")],
)
def test_judge_accepts_a_correct_outcome(ended: Outcome) -> None:
    assert judge.of_fault(WHOLE, ended, FAULT) == []


def test_judge_of_fatal_faults_and_of_faults_that_did_not_occur() -> None:
    fatal = replace(FAULT, codes=FAILURES)
    assert judge.of_fault(WHOLE, WHOLE, fatal) == [
        "exit 0 as if nothing had happened, although it cannot do without"
    ]
    assert judge.of_fault(WHOLE, outcome(1), fatal) == ["exit 1, not [2, 3, 4, 5]"]
    idle = replace(FAULT, fired=lambda: False)
    assert judge.of_fault(WHOLE, WHOLE, idle) == []
    assert judge.of_fault(WHOLE, outcome(5), idle) == ["the fault did not come about, and yet exit 5 differs"]


def test_judge_of_streams_and_signals() -> None:
    assert judge.of_streams(WHOLE, outcome(0, ""), Streams(closed=(1, 2))) == []
    assert judge.of_streams(WHOLE, outcome(1, ""), Streams(byte_limits={1: 0})) == ["exit 1, not 0"]
    assert judge.of_streams(WHOLE, outcome(0, ""), Streams(full=(1,))) == ["exit 0, not 4"]
    assert judge.of_streams(WHOLE, outcome(4, ""), Streams(full=(1,))) == []
    assert judge.of_signal(WHOLE, outcome(130, ""), 2, "report") == []
    assert judge.of_signal(WHOLE, outcome(-15, ""), 15, "report") == []
    assert judge.of_signal(replace(WHOLE, code=1), outcome(0, ""), 15, "report") == ["exit 0 after SIGTERM"]
    assert judge.of_signal(replace(WHOLE, code=1), outcome(0, ""), 15, "watch") == []
