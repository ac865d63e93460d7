"""``bkaudit encode``, and the listing that ``explain ledger`` compares with a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_doors import bkaudit
from tests.made_runs import made_run

EXAMPLE = b"1, 2\n4 5 7-8\n10,11\n11\n"


def encode(data: bytes, *options: str) -> bytes:
    outcome = bkaudit("encode", "availability", "-", *options, input=data)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout_bytes


def decoded(value: bytes) -> dict[str, object]:
    shown: dict[str, object] = json.loads(bkaudit("decode", "availability", "-", input=value).stdout)
    return shown


def test_the_proposals_example_is_one_group() -> None:
    assert decoded(encode(EXAMPLE)) == {"groups": [[1, 10, 2, 3]], "total": 8}


def test_unfolded_option_writes_one_group_per_run() -> None:
    assert decoded(encode(EXAMPLE, "--unfolded"))["groups"] == [
        [1, 1, 2, 0], [4, 4, 2, 0], [7, 7, 2, 0], [10, 10, 2, 0]
    ]  # fmt: skip


def test_empty_entry_list_is_encoded() -> None:
    assert encode(b"\n") == bytes(64)


def test_run_longer_than_an_int_is_split() -> None:
    longest = 2**31 - 1
    assert decoded(encode(f"0-{longest}".encode()))["groups"] == [
        [0, 0, longest, 0],
        [longest, longest, 1, 0],
    ]


def test_a_file_that_cannot_be_written_is_refused_with_its_path(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for place in (loop, tmp_path / "missing" / "value"):
        outcome = bkaudit("encode", "availability", "-", "--out", str(place), input=EXAMPLE)
        assert outcome.exit_code == 4
        assert outcome.stderr.startswith(f"bkaudit: {place}: ")


def test_out_option_writes_the_value_to_a_file(tmp_path: Path) -> None:
    assert encode(EXAMPLE, "--out", str(tmp_path / "value")) == b""
    assert (tmp_path / "value").read_bytes() == encode(EXAMPLE)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"1\n2 x", "line 2: 'x' is neither an entry id nor a range"),
        (b"-5", "line 1: '-5' is neither"),
        (b"9-3", "line 1: '9-3': invalid range"),
        (b"9223372036854775807", "the largest entry id is 9223372036854775806"),
        (b"1 \xff", "byte 2 is neither a digit nor a separator"),
    ],
)
def test_invalid_entry_list_is_wrong_usage(data: bytes, reason: str) -> None:
    outcome = bkaudit("encode", "availability", "-", input=data)
    assert (outcome.exit_code, outcome.stdout_bytes) == (2, b"")
    assert reason in outcome.stderr


def test_availability_without_its_bookie_is_wrong_usage(tmp_path: Path) -> None:
    made_run(tmp_path / "run")
    (tmp_path / "value").write_bytes(bytes(64))
    outcome = bkaudit(
        *("explain", "ledger", "7", "--run", str(tmp_path / "run")), "--availability", str(tmp_path / "value")
    )
    assert outcome.exit_code == 2
    assert "--bookie" in outcome.stderr
