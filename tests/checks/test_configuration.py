"""The choice of checks by flags and a settings file, and the choices that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.checks import ALL_CHECKS
from auditor.checks.configuration import CheckConfiguration, kinds_without_holds, read_check_configuration
from auditor.errors import UsageError
from auditor.model.check_settings import CheckSettings
from auditor.model.holds import ActionKind
from auditor.model.options import AuditOptions

CHECK_IDS = {check.id for check in ALL_CHECKS}


def settings_file(path: Path, text: str) -> str:
    file = path / "checks.toml"
    file.write_text(text, "utf-8")
    return str(file)


def test_without_options_every_check_runs_with_its_defaults() -> None:
    configuration = read_check_configuration(AuditOptions())
    assert configuration == CheckConfiguration()
    assert configuration.checks_without_holds == ()
    facts = configuration.facts()
    assert (facts["not_run"], facts["unheld"]) == ([], [])
    assert all(constant["value"] == constant["default"] for constant in facts["constants"])


@pytest.mark.parametrize(
    ("options", "file", "run"),
    [
        ({"checks": "entry-lost, mark-stuck"}, "", {"entry-lost", "mark-stuck"}),
        (
            {"checks": ["entry-lost", "mark-stuck,ghost-bookie"]},
            "",
            {"entry-lost", "mark-stuck", "ghost-bookie"},
        ),
        ({"skip_checks": "mark-stuck"}, "", CHECK_IDS - {"mark-stuck"}),
        ({"checks": "entry-lost,mark-stuck", "skip_checks": "mark-stuck"}, "", {"entry-lost"}),
        ({}, 'checks = ["entry-lost"]', {"entry-lost"}),
        ({}, 'checks = "entry-lost,mark-stuck"', {"entry-lost", "mark-stuck"}),
        ({}, 'skip_checks = ["entry-lost"]', CHECK_IDS - {"entry-lost"}),
        ({"checks": "mark-stuck"}, 'checks = ["entry-lost"]', {"mark-stuck"}),
        ({"skip_checks": "mark-stuck"}, 'skip_checks = ["entry-lost"]', CHECK_IDS - {"mark-stuck"}),
        ({"checks": "mark-stuck,entry-lost"}, 'skip_checks = ["entry-lost"]', {"mark-stuck"}),
    ],
)
def test_flags_override_the_settings_file(
    options: dict[str, Any], file: str, run: set[str], tmp_path: Path
) -> None:
    path = settings_file(tmp_path, file)
    configuration = read_check_configuration(AuditOptions(check_settings=path, **options))
    assert CHECK_IDS - {*configuration.not_run} == run
    assert [check.id for check in ALL_CHECKS if check.id in configuration.not_run] == list(
        configuration.not_run
    )


def test_alias_of_a_check_selects_the_check() -> None:
    for check in ALL_CHECKS:
        for alias in check.aliases:
            assert read_check_configuration(AuditOptions(skip_checks=alias)).not_run == (check.id,)


def test_the_file_changes_constants(tmp_path: Path) -> None:
    path = settings_file(tmp_path, "[constants]\nstuck_hours = 48\n")
    configuration = read_check_configuration(AuditOptions(check_settings=path))
    assert configuration.settings == CheckSettings(stuck_hours=48)
    assert configuration.identity != CheckConfiguration().identity


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checks": "entry-los"}, "--checks: 'entry-los' is not a check; did you mean entry-lost?"),
        ({"checks": "qqq"}, "--checks: 'qqq' is not a check; bkaudit explain check lists all ids"),
        (
            {"skip_checks": "entry-lost,"},
            "--skip-checks: '' is not a check; bkaudit explain check lists all ids",
        ),
        (
            {"checks": "entry-lost", "skip_checks": "entry-lost"},
            "checks: every selected check is also skipped, so no check remains",
        ),
        ({"check_settings": "/nowhere/checks.toml"}, "/nowhere/checks.toml: No such file or directory"),
    ],
)
def test_invalid_choice_of_checks_gets_a_one_line_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_check_configuration(AuditOptions(**options))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checks = [", "not TOML"),
        ("check = []", "check: no such key; did you mean checks?"),
        ("checks = [1]", "checks: [1] is neither a string nor a list of strings"),
        ('checks = ["entry-los"]', "checks: 'entry-los' is not a check; did you mean entry-lost?"),
        ("constants = 3", "constants: 3 is not a TOML table"),
        ("[constants]\nopen_days = -1", "constants: open_days: -1 is below the minimum of 1 (unit: days)"),
        ("[constants]\nopendays = 3", "constants: opendays: no such constant; did you mean open_days?"),
    ],
)
def test_invalid_settings_file_error_starts_with_its_path(text: str, message: str, tmp_path: Path) -> None:
    path = settings_file(tmp_path, text)
    with pytest.raises(UsageError) as raised:
        read_check_configuration(AuditOptions(check_settings=path))
    assert str(raised.value).startswith(f"{path}: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_skipped_and_loosened_checks_are_listed_as_without_holds() -> None:
    configuration = CheckConfiguration(CheckSettings(content_margin=11), ("entry-lost",))
    assert configuration.checks_without_holds == ("entry-lost", "disk-content-mismatch")


@pytest.mark.parametrize("check", [check for check in ALL_CHECKS if check.holds], ids=lambda check: check.id)
def test_action_kinds_that_a_check_forbids_are_listed_when_it_is_skipped(check: Any) -> None:
    kinds = {kind for rule in check.holds for kind in rule.forbids}
    assert kinds_without_holds([check.id]) == dict.fromkeys(kinds, (check.id,))


def test_skipping_a_check_without_holds_lists_no_action_kind() -> None:
    assert kinds_without_holds(["mark-stuck"]) == {}
    assert ActionKind.STOP not in kinds_without_holds(
        [check.id for check in ALL_CHECKS if check.id != "index-incomplete"]
    )
