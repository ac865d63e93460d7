"""A real run, told to whoever has to act on it."""

from __future__ import annotations

import shlex

from click.testing import CliRunner

from auditor.checks import CHECK_BY_ID
from auditor.cli import main
from auditor.reports.plain_text import columns_of
from tests.checks.tables_builder import BLANKS
from tests.corpora.audited import Audited


def test_a_run_is_told_with_what_was_not_seen_and_what_to_do(audited: Audited) -> None:
    told = CliRunner().invoke(main, ["explain", "run", str(audited.out)])
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    said = " ".join(told.stdout.split())
    actions = audited.report.run.actions
    assert actions
    for number, action in enumerate(actions, 1):
        assert f" {number}. {action['text']}" in said
    for refused in audited.report.run.forbidden:
        assert f" do not {refused['kind'].replace('-', ' ')} {refused['objects']}: " in said
    for row in audited.table("bookies"):
        if row["read"] != "read" and (row["named"] or row["found"]):
            assert f" {row['bookie_id']}, " in said.partition("skipped checks")[0]
    assert all(columns_of(line) <= 80 for line in lines if "bookkeeper" not in line and "bkaudit" not in line)


def test_every_command_about_a_bookie_names_what_the_cluster_has(audited: Audited) -> None:
    known = {row["bookie_id"] for row in audited.table("bookies")}
    pages = [
        CliRunner().invoke(main, ["explain", "bookie", name, "--run", str(audited.out)]).stdout
        for name in sorted(known)
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
                assert name in {*known, *BLANKS, "hostname", "ip"}, command
