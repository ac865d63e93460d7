"""Tests of a run in which an attacker wrote every text: no form and no command obeys that text.

The tests find these texts of report.json by trial. If a run can still be read with a text replaced, anybody
may have written that text. A field that is added later is thus included.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from auditor.errors import RunError
from auditor.model.report import Report
from auditor.notebook.run import Run, open_run
from auditor.reports.forms import FORMS
from tests.cli.test_doors import bkaudit
from tests.made_runs import change_row, made_run
from tests.reports.hostile import BOOKIE, HOSTILE
from tests.reports.samples import LOST, report, tally

WORDS = (
    f'{BOOKIE}\x1b]0;x\x07"}} 1\nevil_metric{{a="b"}} 1\n<!channel> <@U1> &lt; javascript:alert(1)'
    "\u2028\r\n::error::x"
)
TALLIES = [tally(HOSTILE.id, str(HOSTILE.severity))]


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each text in a JSON value."""
    if isinstance(value, str):
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield from texts(child, (*path, key))


def put(value: Any, path: tuple[Any, ...], text: str) -> Any:
    changed = copy.deepcopy(value)
    part = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = text
    return changed


def hostile_report() -> tuple[Report, int]:
    """Return a report in which every text that can be arbitrary is hostile, and the number of these texts."""
    value = json.loads(report(TALLIES, (HOSTILE,), notes=["a note"], gaps=["a gap"]).to_json())
    count = 0
    for path in list(texts(value)):
        with suppress(RunError):
            changed = put(value, path, WORDS)
            Report.from_json(json.dumps(changed))
            value, count = changed, count + 1
    return Report.from_json(json.dumps(value)), count


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("hostile")
    run_report, count = hostile_report()
    assert count >= 25
    bookie = {"bookie_id": BOOKIE, "named": True, "found": True, "read": "read", "replicas": 1, "ledgers": 1}
    made_run(
        home / "run",
        (HOSTILE,),
        run_report,
        changes=[change_row(HOSTILE, 0, "new", suppressed=WORDS)],
        bookies=[bookie | {"depending": 1}],
        identities=[{"bookie_id": BOOKIE, "aliases": []}],
    )
    return open_run(home / "run")


def render_form(run: Run, form: str) -> str:
    out = io.BytesIO()
    FORMS[form].write(run, out)
    return out.getvalue().decode()


def assert_plain(text: str) -> None:
    """Assert that no character controls the terminal, and that no line begins with text of the attacker."""
    wrong = {char for char in text if not char.isprintable() and char != "\n"}
    assert not wrong
    assert not [line for line in text.splitlines() if line.startswith(("::", "evil_metric"))]


COMMANDS = (
    ("report", "RUN"),
    ("report", "RUN", "--all", "--flat"),
    ("explain", "run", "RUN"),
    ("explain", "bookie", BOOKIE, "--run", "RUN"),
    ("status", "RUN"),
    ("history", "RUNS"),
    ("diff", "RUN", "RUN"),
    ("prune", "RUNS", "--keep-last", "1"),
    ("simulate", "RUN"),
    ("decommission", "RUN", BOOKIE),
    ("plan", "RUN", "--out", "PLAN"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]).lower()[:20])
def test_no_command_prints_control_characters(command: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    places = {"RUN": run.path, "RUNS": str(Path(run.path).parent), "PLAN": str(tmp_path / "plan.toml")}
    done = bkaudit(*(places.get(word, word) for word in command))
    assert done.exit_code != 70, done.stderr
    assert done.stdout + done.stderr
    assert_plain(done.stdout)
    assert_plain(done.stderr)


@pytest.mark.parametrize("form", ["text", "plain"])
def test_text_forms_contain_no_control_characters(form: str, run: Run) -> None:
    assert_plain(render_form(run, form))


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.wrong += [
            name for name, value in attrs if name.startswith("on") or "javascript:" in (value or "")
        ]
        self.wrong += [tag] * (tag in ("img", "iframe", "object", "failure"))


def tags(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    return parser


def test_html_page_contains_only_its_own_scripts(run: Run, tmp_path: Path) -> None:
    plain_report = report([tally("entry-lost", "critical")], (LOST,))
    plain = made_run(tmp_path / "run", (LOST,), plain_report, changes=[change_row(LOST, 0, "new")])
    page_tags = tags(render_form(run, "html"))
    assert not page_tags.wrong
    assert page_tags.scripts == tags(render_form(plain, "html")).scripts


def test_no_csv_cell_is_a_formula(run: Run) -> None:
    rows = list(csv.reader(io.StringIO(render_form(run, "csv"), newline=""), strict=True))
    assert len({len(row) for row in rows}) == 1
    formulas = [cell for row in rows for cell in row if re.match(r"[=+@\t\r]|-(?!\d+$)", cell)]
    assert not formulas


def test_machine_readable_forms_parse_with_hostile_text(run: Run) -> None:
    ElementTree.fromstring(render_form(run, "junit"))
    for form in ("json", "sarif", "slack"):
        json.loads(render_form(run, form))
    for line in render_form(run, "jsonl").split("\n")[:-1]:
        json.loads(line)
    text = render_form(run, "openmetrics")
    names = {family.name for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert names
    assert all(name.startswith("bkaudit_") for name in names)


def test_slack_and_markdown_contain_no_hostile_mention_or_link(run: Run) -> None:
    slack = render_form(run, "slack")
    assert "<!channel>" not in slack
    assert "<@U1>" not in slack
    source = render_form(run, "markdown")
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(source)
    page_tags = tags(page)
    assert (page_tags.scripts, page_tags.wrong) == (0, [])
    assert 'evil.example"' not in page
    assert "@all" not in source
