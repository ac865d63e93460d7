"""Pictures of the README: the first screen of a report in a terminal, and its HTML page.

    python -m tests.pictures RUN

RUN is the directory of a finished run, for example that of ``python3 run.py demo --out RUN``. The command
writes ``docs/pictures/terminal.png`` and ``docs/pictures/page.png``. It needs a chromium on the PATH.
"""

from __future__ import annotations

import html
import re
import shutil
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from playwright.sync_api import Page, sync_playwright

from auditor.cli.terminal import colour_words
from auditor.notebook.run import Run, open_run
from auditor.reports import first_screen

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SHOWN_RUN = "run-1"
"""Name of the run in the commands of the screen."""
WIDTH, PAGE_HEIGHT = 1080, 660
"""Size of the window in pixels. The terminal's picture has the height of its text."""
COLOURS = {
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
}
"""Foreground colours by the number of their escape sequence."""
_ESCAPE = re.compile(r"\x1b\[(\d+)m")
_STYLE = (
    "margin:0;padding:14px 18px;background:#0d1117;color:#e6edf3;display:inline-block;"
    "font:14px/1.4 'DejaVu Sans Mono','Liberation Mono',monospace"
)


def terminal_page(text: str) -> str:
    r"""Return an HTML page that shows a text with escape sequences as a terminal does.

    >>> "<span style='color:#ff7b72'>LOST</span>" in terminal_page("\x1b[31mLOST\x1b[0m")
    True
    """
    parts, open_spans, end = [], 0, 0
    for escape in _ESCAPE.finditer(text):
        parts.append(html.escape(text[end : escape.start()]))
        end = escape.end()
        if escape[1] == "0":
            parts.append("</span>" * open_spans)
            open_spans = 0
        else:
            style = f"color:{COLOURS[escape[1]]}" if escape[1] in COLOURS else "font-weight:bold"
            parts.append(f"<span style='{style}'>")
            open_spans += 1
    parts.append(html.escape(text[end:]))
    return f'<meta charset="utf-8"><body style="margin:0"><pre style="{_STYLE}">{"".join(parts)}</pre>'


def draw(page: Page, run: Run, pictures: Path) -> None:
    """Write both pictures of a run into a directory. The HTML page is written to the working directory."""
    screen = colour_words(first_screen.render(run.report, SHOWN_RUN))
    page.set_content(terminal_page(f"$ bkaudit report {SHOWN_RUN}\n{screen}"))
    page.locator("pre").screenshot(path=pictures / "terminal.png")
    file = Path("page.html").absolute()
    run.write("html", file)
    page.goto(file.as_uri())
    page.screenshot(path=pictures / "page.png")


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
def main(run: str) -> None:
    """Draw the pictures of the README from a finished RUN."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise click.ClickException("chromium: not on the PATH. Install it, and run this again.")
    PICTURES.mkdir(exist_ok=True)
    source = Path(run).absolute()
    # The page's commands name the run by its path: a link gives it a short one.
    with TemporaryDirectory() as scratch, chdir(scratch), sync_playwright() as playwright:
        Path(SHOWN_RUN).symlink_to(source)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": PAGE_HEIGHT}, color_scheme="light")
        draw(page, open_run(SHOWN_RUN), PICTURES)
        browser.close()


if __name__ == "__main__":
    main()
