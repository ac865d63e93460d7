"""What the pictures of a run have in common: a figure that shows itself, axes, bars, time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from auditor.errors import UsageError
from auditor.reports.plain_text import printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

STEPS = 90
"""Bars of a picture over time at most; more days are drawn as weeks, months, years or decades."""

_WIDTH, _MOST_HEIGHT = 9.0, 40.0  # inches
_LABEL = 36  # characters
_TICKS = 12
_LENGTHS = {"day": 1, "week": 7, "30 days": 30, "365 days": 365, "3,650 days": 3650}


def new_figure(height: float) -> Figure:
    """An empty figure of so many inches, that a notebook shows without pyplot.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("plots need matplotlib: pip install 'bookkeeper-auditor[notebook]'") from error

    class InlineFigure(Figure):
        """pyplot, which shows figures otherwise, keeps every one that it made until it is closed."""

        def _repr_png_(self) -> bytes:
            stream = BytesIO()
            self.savefig(stream, format="png", dpi=110)
            return stream.getvalue()

    return InlineFigure(figsize=(_WIDTH, min(height, _MOST_HEIGHT)), layout="constrained")


def label(text: str) -> str:
    """A name that the cluster chose, as a label: visible characters only, no formula, no more than fit.

    >>> label("bk-1\\x1b[31m:3181"), label("$\\\\frac{1}{2}$")
    ('bk-1?[31m:3181', '\\\\$\\\\frac{1}{2}\\\\$')
    >>> label("storage-node-0001.rack-17.dc-2.example.com:3181")
    'storage-node-0001....example.com:3181'
    """
    text = printable(text)
    if len(text) > _LABEL:
        text = f"{text[: _LABEL // 2]}...{text[-_LABEL // 2 + 2 :]}"
    return text.replace("$", "\\$")


def name_rows(axes: Axes, names: Iterable[object], offset: float = 0.0) -> None:
    """Write a name beside each row, the first at the top."""
    labels = [label(str(name)) for name in names]
    axes.set_yticks([number + offset for number in range(len(labels))], labels, fontsize=8)
    axes.margins(y=0.02)
    axes.invert_yaxis()


def bars(axes: Axes, counts: Sequence[int], colours: Sequence[str]) -> None:
    """One bar for each row, its number behind it."""
    drawn = axes.barh(range(len(counts)), counts, color=colours)
    axes.bar_label(drawn, [f"{count:,}" for count in counts], padding=3, fontsize=8)
    whole_numbers(axes.xaxis)


def stack_bars(axes: Axes, frame: pd.DataFrame, colours: Mapping[str, str], across: bool = False) -> None:
    """The columns of a frame of counts upon each other, one bar for each row; ``across``: bars lie down."""
    start = [0] * len(frame)
    for name in frame.columns:
        counts = [int(count) for count in frame[name]]
        if not any(counts):
            continue
        if across:
            axes.barh(range(len(counts)), counts, left=start, color=colours[name], label=name)
        else:
            axes.bar(range(len(counts)), counts, bottom=start, color=colours[name], label=name)
        start = [one + other for one, other in zip(start, counts, strict=True)]
    whole_numbers(axes.xaxis if across else axes.yaxis)


def name_times(axes: Axes, times: pd.Index[pd.Timestamp], form: str = "%Y-%m-%d") -> None:
    """Write times below bars, no more than can be read; a single bar does not fill the picture."""
    shown = range(0, len(times), max(-(-len(times) // _TICKS), 1))
    dates = [times[number].strftime(form) for number in shown]
    axes.set_xlim(-0.6, max(len(times), _TICKS) - 0.4)
    axes.set_xticks(list(shown), dates, rotation=30, ha="right", fontsize=8)


def whole_numbers(axis: Axis) -> None:
    """Counts have no fractions."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def coarser(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Counts by day, summed up to so few rows that they can be drawn; and what a row is then.

    Days without a count are rows too, so that the axis is one of time.
    """
    import pandas as pd

    if not len(frame):
        return frame, "day"
    days = (frame.index - frame.index[0]).days
    step = next(name for name, length in _LENGTHS.items() if days[-1] // length < STEPS)
    places = days // _LENGTHS[step]
    summed = frame.groupby(places).sum().reindex(range(places[-1] + 1), fill_value=0)
    starts = frame.index[0] + pd.to_timedelta(summed.index * _LENGTHS[step], unit="D")
    return summed.set_index(starts), step
