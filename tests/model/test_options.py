"""Options: one declaration, and the file that has them all."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from auditor.cli.options import options_from_flags
from auditor.errors import UsageError
from auditor.model.finding import Severity
from auditor.model.options import AuditOptions, option_types

CONF = Path(__file__).parents[2] / "conf" / "audit.toml"


def test_the_file_shows_every_option_once_in_order() -> None:
    shown = re.findall(r"^(?:# )?(\w+) = ", CONF.read_text("utf-8"), re.MULTILINE)
    assert shown == list(option_types())


def test_the_file_shows_the_defaults() -> None:
    assert options_from_flags(CONF, {}) == AuditOptions()


def test_every_option_of_the_file_is_commented() -> None:
    lines = CONF.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(r"(?:# )?\w+ = ", line):
            assert lines[number - 1].startswith("# "), line


def test_a_file_may_leave_options_out(tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    file.write_text('fail_on = "note"\nsamples = 3\nrate_limit = 5\n')
    assert options_from_flags(file, {}) == AuditOptions(fail_on=Severity.NOTE, samples=3, rate_limit=5.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "sample = 3",
            "sample: no such option; valid options: fail_on, fail_on_suspect, suppressions, samples",
        ),
        ("[audit]\nsamples = 3", "audit: no such option"),
        ("samples = 'many'", "samples: 'many' is not a whole number"),
        ("samples = true", "samples: True is not a whole number"),
        ("samples = 2.5", "samples: 2.5 is not a whole number"),
        ("samples = -1", "samples: -1 is below 0"),
        ("samples = 10001", "samples: 10001 is above 10000"),
        ("scan_time = 99999999999999999999", "not TOML|scan_time: 99999999999999999999 is above"),
        ("scan_time = 'yesterday'", "scan_time: 'yesterday' is not a time"),
        ("index_time = true", "index_time: True is not a whole number"),
        ("fail_on = 'fatal'", "fail_on: 'fatal' is not one of critical, error, warning, note, new"),
        ("fail_on = 3", "fail_on: 3 is not one of"),
        ("fail_on_suspect = 1", "fail_on_suspect: 1 is neither true nor false"),
        ("rate_limit = nan", "rate_limit: nan is below 0"),
        ("rate_limit = 'fast'", "rate_limit: 'fast' is not a number"),
        ("timeout = inf", "timeout: inf is above 3600"),
        ("master = ''", "master: '' is empty or not a string"),
        ("master = 1", "master: 1 is empty or not a string"),
        ("samples 3", "not TOML"),
        ("samples = 3\nsamples = 4", "not TOML"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "audit.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as refused:
        options_from_flags(file, {})
    assert str(refused.value).startswith(str(file))


def test_missing_or_binary_options_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        options_from_flags(tmp_path / "none.toml", {})
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not TOML"):
        options_from_flags(tmp_path / "bytes.toml", {})


@pytest.mark.parametrize(("name", "value"), [("threads", 0), ("timeout", math.nan), ("batch", None)])
def test_python_options_have_the_same_bounds(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        AuditOptions(**{name: value})


@pytest.mark.parametrize(
    "text",
    [
        "1795244400000",
        "'1795244400000'",
        "'2026-11-21T07:00:00Z'",
        "'2026-11-21T08:00:00+01:00'",
        "2026-11-21T07:00:00Z",
        "2026-11-21T07:00:00",
    ],
)
def test_scan_time_may_be_milliseconds_or_iso_text(tmp_path: Path, text: str) -> None:
    file = tmp_path / "audit.toml"
    file.write_text(f"scan_time = {text}")
    assert options_from_flags(file, {}).scan_time == 1_795_244_400_000
