"""Constants of checks: bounds, names, and the values that are at least as careful as the defaults."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path
from typing import Any

import pytest

from auditor.checks import ALL_CHECKS
from auditor.errors import UsageError
from auditor.model.check_settings import CheckSettings, StricterDirection, constants, default_value

CONF = Path(__file__).parents[2] / "conf" / "checks.toml"
DEFAULTS = asdict(CheckSettings())


def test_every_default_is_within_its_bounds_and_has_unit_and_reason() -> None:
    for name, constant in constants().items():
        assert constant.low <= default_value(name) <= constant.high, name
        assert constant.unit, name
        assert constant.reason.endswith("."), name


def test_every_constant_is_used_by_a_check() -> None:
    assert {name for check in ALL_CHECKS for name in check.settings} == {*constants()}


def test_constants_of_checks_with_holds_have_a_stricter_side() -> None:
    guarded = {name for check in ALL_CHECKS if check.holds for name in check.settings}
    assert guarded == {
        name for name in constants() if constants()[name].stricter_side is not StricterDirection.ANY
    }


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        CheckSettings().stuck_hours = 1  # type: ignore[misc]


def test_the_file_in_conf_has_every_constant_with_its_default() -> None:
    assert tomllib.loads(CONF.read_text("utf-8")) == {"constants": DEFAULTS}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"open_dais": 3}, "constants: open_dais: no such constant; did you mean open_days?"),
        ({"zzz": 3}, f"constants: zzz: no such constant; valid names: {', '.join(DEFAULTS)}"),
        ({"open_days": 0}, "constants: open_days: 0 is below the minimum of 1 (unit: days)"),
        ({"open_days": 3_651}, "constants: open_days: 3651 is above the maximum of 3650 (unit: days)"),
        ({"open_days": "x"}, "constants: open_days: 'x' is not a whole number"),
        ({"open_days": 1.5}, "constants: open_days: 1.5 is not a whole number"),
        ({"open_days": True}, "constants: open_days: True is not a whole number"),
    ],
)
def test_a_wrong_constant_is_refused_in_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        CheckSettings.from_values(values, "constants")
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("values", "loosened_constants"),
    [
        ({}, ()),
        ({"stuck_hours": 1_000}, ()),
        ({"least_orphans": 1}, ()),
        ({"least_orphans": 101}, ("least_orphans",)),
        ({"id_spread": 10_000}, ()),
        ({"id_spread": 10}, ("id_spread",)),
        ({"vanished_block_ids": 9_999}, ("vanished_block_ids",)),
        ({"vanished_block_ids": 10_001}, ("vanished_block_ids",)),
    ],
)
def test_value_that_finds_fewer_dangers_is_reported_as_loose(
    values: dict[str, int], loosened_constants: tuple[str, ...]
) -> None:
    assert replace(CheckSettings(), **values).find_loose_constants() == loosened_constants
