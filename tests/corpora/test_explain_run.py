"""The explanation of a real run for the operator who has to act on it."""

from __future__ import annotations

import shlex

from click.testing import CliRunner

from auditor.checks import CHECK_BY_ID
from auditor.cli import main
from auditor.reports.plain_text import columns_of
from tests.checks.tables_builder import BLANKS
from tests.corpora.audited import FinishedRun


def test_run_is_explained_with_its_actions_and_unread_bookies(audited: FinishedRun) -> None:
    result = CliRunner().invoke(main, ["explain", "run", str(audited.out)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    output = " ".join(result.stdout.split())
    actions = audited.report.run.actions
    assert actions
    for number, action in enumerate(actions, 1):
        assert f" {number}. {action['text']}" in output
    for refused in audited.report.run.forbidden:
        assert f" do not {refused['kind'].replace('-', ' ')} {refused['objects']}: " in output
    for row in audited.table("bookies"):
        if row["read"] != "read" and (row["named"] or row["found"]):
            assert f" {row['bookie_id']}, " in output.partition("skipped checks")[0]
    assert all(columns_of(line) <= 80 for line in lines if "bookkeeper" not in line and "bkaudit" not in line)


def test_bookie_commands_name_only_existing_objects(audited: FinishedRun) -> None:
    bookies = {row["bookie_id"] for row in audited.table("bookies")}
    pages = [
        CliRunner().invoke(main, ["explain", "bookie", name, "--run", str(audited.out)]).stdout
        for name in sorted(bookies)
    ]
    lines = [line.strip() for page in pages for line in page.splitlines()]
    commands = [line for line in lines if line.startswith("bookkeeper shell")]
    texts = {len(command.text.split()) for check in CHECK_BY_ID.values() for command in check.commands}
    assert commands
    for command in commands:
        words = shlex.split(command)
        assert len(words) in texts
        for name, option in zip(words[1:], words, strict=False):
            if option in ("-b", "-bookieid", "-q", "-sk", "-sku") and not name.startswith("-"):
                assert name in {*bookies, *BLANKS, "hostname", "ip"}, command
