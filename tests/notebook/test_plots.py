"""Pictures of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from auditor.errors import RunError, UsageError
from auditor.notebook import plots
from auditor.notebook.plots import Plots, group_into_periods
from auditor.notebook.run import Run
from tests.made_runs import change_row, made_run, numbered
from tests.notebook.test_frames import DAY, HUGE, MAY_3, ledger, striped, verdict
from tests.reports.hostile import BOOKIE
from tests.reports.samples import LOST, ORPHAN, report, tally

PLOTS: dict[str, Callable[[Plots], Figure]] = {
    "stripes": lambda plot: plot.stripes(42),
    "findings": lambda plot: plot.findings(),
    "bookies": lambda plot: plot.bookies(),
    "space": lambda plot: plot.space(),
    "ledgers": lambda plot: plot.ledgers(),
    "days": lambda plot: plot.days(),
    "since": lambda plot: plot.since(),
    "history": lambda plot: plot.history(),
}


def draw_png(figure: Figure) -> bytes:
    """Lay out and render a figure as PNG; many errors occur only then."""
    shown, metadata = figure._repr_png_()  # type: ignore[attr-defined]
    assert shown.startswith(b"\x89PNG")
    assert metadata["alt"] == figure.get_label() != ""
    return bytes(shown)


def texts(figure: Figure) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]


def full(path: Path) -> Run:
    run = striped(path)
    built_report = report([tally("entry-lost", "critical", 3), tally("orphan-ledger", "note", 12)])
    return made_run(
        path,
        [LOST, ORPHAN],
        report=built_report,
        changes=[change_row(LOST, MAY_3), change_row(ORPHAN, MAY_3 + 3 * DAY)],
        ledgers=[*run.table("ledgers").to_pylist(), *(ledger(n, MAY_3 + n * DAY) for n in range(5))],
        verdicts=[verdict(n, kind) for n, kind in enumerate(["entry-lost", "undecided", "healthy"])],
        availability=run.table("availability").to_pylist(),
        bookies=[
            {"bookie_id": name, "read": "read", "named": True, "replicas": 9, "foreign_instance": False}
            for name in ("bk-a", "bk-b")
        ],
        judged=[{"missing": [{"bookie_id": "bk-b", "count": 9}]}],
        space=[{"bookie_id": name, "class": "live", "bytes": 10**9} for name in ("bk-a", "bk-b")],
    )


def test_every_plot_is_tested() -> None:
    assert set(PLOTS) == {name for name in vars(Plots) if not name.startswith("_")}


@pytest.mark.parametrize("name", PLOTS)
def test_plot_is_drawn_as_png_and_svg(tmp_path: Path, name: str) -> None:
    figure = PLOTS[name](full(tmp_path / "runs" / "run").plot)
    draw_png(figure)
    svg_file = BytesIO()
    figure.savefig(svg_file, format="svg")
    assert svg_file.getvalue().lstrip().startswith(b"<?xml")


@pytest.mark.parametrize("name", [name for name in PLOTS if name != "stripes"])
def test_run_without_findings_is_drawn(tmp_path: Path, name: str) -> None:
    draw_png(PLOTS[name](made_run(tmp_path / "runs" / "run", report=report([], ())).plot))


def test_picture_has_an_alt_text_of_its_content(tmp_path: Path) -> None:
    plot = full(tmp_path / "runs" / "run").plot
    alts = {name: str(PLOTS[name](plot).get_label()) for name in PLOTS}
    assert alts["findings"] == "Findings by check: entry-lost 3, orphan-ledger 12"
    assert alts["bookies"] == "Replicas that lack entries, by bookie: bk-b 1 of 9, bk-a 0 of 9"
    assert alts["since"] == "Findings, by the day first seen: 2026-05-03 1, 2026-05-06 1"
    assert alts["stripes"].startswith("Ledger 42, cells of 2 bookies: held ")
    shown = str(plot.stripes(42)._repr_html_())
    assert shown.startswith(f'<img alt="{alts["stripes"]}" src="data:image/png;base64,')


def test_missing_entry_is_marked_and_labelled_in_stripes(tmp_path: Path) -> None:
    labels = texts(full(tmp_path).plot.stripes(42))
    assert {"bk-a", "bk-b", "×", "held", "missing ×", "Ledger 42"} <= set(labels)


def test_unknown_ledger_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="of this run has ledger 43"):
        full(tmp_path).plot.stripes(43)


def test_a_long_ledger_on_many_bookies_is_a_small_picture(tmp_path: Path) -> None:
    names = [f"bk-{number:03}" for number in range(100)]
    replicas = [{"bookie_id": name, "groups": b"", "depends": True} for name in names]
    metadata = ledger(
        42, MAY_3, state="CLOSED", ensemble_size=100, write_quorum=2, ack_quorum=2, last_entry_id=HUGE,
        segments=[{"first_entry_id": 0, "ensemble": names}], replicas=replicas,
    )  # fmt: skip
    figure = made_run(tmp_path, ledgers=[metadata]).plot.stripes(42)
    draw_png(figure)
    [axes] = figure.axes
    assert len(axes.get_yticks()) == plots.MAX_STRIPE_ROWS
    assert axes.get_title(loc="left") == "Ledger 42, 60 more bookies not drawn"
    assert figure.get_figheight() < 20


def test_hostile_names_are_drawn_as_text(tmp_path: Path) -> None:
    name = "$\\frac{1}{0}$" + BOOKIE
    run = made_run(
        tmp_path, bookies=[{"bookie_id": name, "read": "read", "named": True, "replicas": 9}],
    )  # fmt: skip
    figure = run.plot.bookies()
    draw_png(figure)
    assert any(text.startswith("\\$\\frac{1}{0}\\$") for text in texts(figure))
    assert not any("\x1b" in text for text in texts(figure))


def test_no_picture_has_more_bars_than_its_bound(tmp_path: Path) -> None:
    count = 50
    run = made_run(
        tmp_path / "runs" / "run",
        report=report([tally(f"check-{number}", "note") for number in range(count)]),
        bookies=[
            {"bookie_id": f"bk-{number}", "read": "read", "named": True, "replicas": 1}
            for number in range(count)
        ],
        changes=[change_row(numbered(ORPHAN, n), MAY_3 + n * n * DAY) for n in range(count)],
    )
    for figure in (run.plot.findings(), run.plot.bookies()):
        [axes] = figure.axes
        assert len(axes.get_yticks()) == plots.MAX_BARS
        assert axes.get_title(loc="left").endswith(f": {plots.MAX_BARS} of {count}")
    [axes] = run.plot.since().axes
    assert len(axes.patches) <= plots.MAX_TIME_BARS


@pytest.mark.parametrize(
    ("days", "step"),
    [(90, "day"), (91, "week"), (1_000, "30 days"), (5_000, "365 days"), (106_000, "3,650 days")],
)
def test_many_days_are_grouped_into_longer_periods(days: int, step: str) -> None:
    index = pd.date_range("1970-01-01", periods=days, freq="D", tz="UTC")
    frame, period_name = group_into_periods(pd.DataFrame({"n": np.ones(days, np.int64)}, index=index))
    assert period_name == step
    assert len(frame) <= plots.MAX_TIME_BARS
    assert frame["n"].sum() == days


def test_without_matplotlib_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="Run: pip install matplotlib"):
        full(tmp_path).plot.findings()
