"""The options that choose checks: one line and exit code 2 for a wrong one, and a page of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_doors import bkaudit


@pytest.mark.parametrize(
    ("command", "flag", "value", "message"),
    [
        ("audit", "--checks", "entry-los", "--checks: 'entry-los' is not a check; did you mean entry-lost?"),
        ("audit", "--skip-checks", "qqq", "'qqq' is not a check; bkaudit explain check lists all ids"),
        ("watch", "--checks", "entry-los", "--checks: 'entry-los' is not a check; did you mean entry-lost?"),
    ],
)
def test_unknown_check_is_wrong_usage(
    command: str, flag: str, value: str, message: str, tmp_path: Path
) -> None:
    outcome = bkaudit(command, "--metadata", f"dump://{tmp_path}/metadata.jsonl", flag, value)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[constants]\nopen_dais = 3", "constants: open_dais: no such constant; did you mean open_days?"),
        ("[constants]\nopen_days = 0", "constants: open_days: 0 is below the minimum of 1 (unit: days)"),
        ("constants = [", "not TOML"),
    ],
)
def test_invalid_settings_file_is_wrong_usage(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "checks.toml"
    file.write_text(text)
    outcome = bkaudit(
        "audit", "--metadata", f"dump://{tmp_path}/metadata.jsonl", "--check-settings", str(file)
    )
    assert outcome.exit_code == 2
    assert f"{file}: " in outcome.stderr
    assert message in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_explained_check_lists_its_settings() -> None:
    outcome = bkaudit("explain", "check", "metadata-suspect")
    assert outcome.exit_code == 0
    page = " ".join(outcome.stdout.split())
    assert "`least_orphans`, by default 100 ledgers (1 to 1,000,000)." in page
    assert "With a higher one, actions that this check could forbid are refused." in page
    assert "Settings" not in bkaudit("explain", "check", "entry-lost").stdout
