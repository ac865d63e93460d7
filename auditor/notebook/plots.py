"""Pictures of a finished run, one call each, for a notebook: ``run.plot.stripes(42)``.

Each picture is a matplotlib Figure, which a notebook shows and ``savefig`` writes. The amount of data in it
is limited as in `auditor.notebook.frames`.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

from auditor.errors import UsageError
from auditor.model.amounts import first_names
from auditor.model.arrow import pd
from auditor.model.ledger_id import LedgerId
from auditor.reports.ledger import Cell
from auditor.reports.plain_text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from auditor.notebook.frames import Frames
    from auditor.notebook.run_figures import RunFigures

MAX_TIME_BARS = 90
"""Largest number of bars in a picture over time. If there are more days, a bar is a week or longer."""

_WIDTH_INCHES, _MAX_HEIGHT_INCHES = 9.0, 40.0  # inches
_MAX_LABEL_LENGTH = 36  # characters
_MAX_TICKS = 12
_PERIOD_DAYS = {"day": 1, "week": 7, "30 days": 30, "365 days": 365, "3,650 days": 3650}

MAX_BARS = 30
"""Largest number of bookies, checks or runs in a picture: the worst ones, or the newest runs."""

MAX_STRIPE_ROWS = 40
MAX_STRIPE_COLUMNS = 160
MAX_COLUMNS_WITH_SIGNS = 60
"""Largest number of columns in a drawing of stripes that labels each cell with the sign of its state."""

# These colours also differ for readers who see no red or no green. Order and signs show the same.
SEVERITY_COLOURS = {"critical": "#a50026", "error": "#f46d43", "warning": "#fdc776", "note": "#8da9c4"}
CLASS_COLOURS = {
    "entry-lost": "#a50026",
    "below-ack-quorum": "#f46d43",
    "below-write-quorum": "#fdc776",
    "undecided": "#7b6ba8",
    "not-closed": "#9fc5d8",
}
REPLICA_COLOURS = {"whole": "#4c86a8", "lack entries": "#a50026", "unknown": "#b9b2d1"}
SPACE_COLOURS = {
    "live": "#4c86a8",
    "surplus": "#9fc5d8",
    "over-replicated": "#7b6ba8",
    "orphan": "#a50026",
    "not-indexed": "#f46d43",
    "owner-named": "#d73027",
    "superseded": "#fdc776",
    "owner-unknown": "#b9b2d1",
    "not-yet-mapped": "#545d69",
    "headers-and-maps": "#f1f3f5",
}
CELL_STYLES = {
    Cell.PRESENT: ("#4c86a8", ""),
    Cell.MISSING: ("#a50026", "×"),
    Cell.SOME_MISSING: ("#f46d43", "×"),
    Cell.UNKNOWN: ("#b9b2d1", "?"),
    Cell.SURPLUS: ("#fdc776", "+"),
    Cell.NOT_EXPECTED: ("#f1f3f5", ""),
}
_DARK_CELLS = (Cell.MISSING, Cell.SOME_MISSING)


class Plots:
    """Pictures of a run.

    Raises:
        UsageError: from any method, if matplotlib is not installed.
        RunError: from any method, if a part of the run is missing or broken. The message names the part.
    """

    def __init__(self, run: RunFigures, frames: Frames) -> None:
        self._run = run
        self._frames = frames

    def __repr__(self) -> str:
        names = sorted(name for name in vars(type(self)) if not name.startswith("_"))
        return f"<plots of {self._run.path}: {', '.join(names)}>"

    def stripes(self, ledger_id: int, scope_id: int = 0) -> Figure:
        """Draw the entries of one ledger (columns) on its bookies (rows), to show missing entries."""
        frame = self._frames.stripes(ledger_id, scope_id, MAX_STRIPE_COLUMNS)
        more_count = len(frame) - MAX_STRIPE_ROWS
        title_suffix = f", {more_count:,} more bookies not drawn" if more_count > 0 else ""
        frame = frame.head(MAX_STRIPE_ROWS)
        figure = new_figure(0.3 * len(frame) + 1.6)
        axes = figure.add_subplot()
        if frame.size:
            _draw_cells(figure, frame)
        else:
            title_suffix += ": no entry is expected or held"
        name_rows(axes, frame.index, 0.5)
        tick_columns = range(0, frame.shape[1], max(frame.shape[1] // 10, 1))
        axes.set_xticks(
            [number + 0.5 for number in tick_columns], [f"{frame.columns[number]}" for number in tick_columns]
        )
        axes.set_xlabel("entry")
        name = LedgerId(ledger_id, scope_id).display_name.capitalize()
        axes.set_title(f"{name}{title_suffix}", loc="left")
        cells = Counter(frame.to_numpy().ravel().tolist())
        set_description(figure, f"{name}{title_suffix}, cells of {len(frame)} bookies", cells.items())
        return figure

    def findings(self) -> Figure:
        """Draw the number of findings of each check, by severity."""
        frame = self._frames.by_id()
        figure = new_figure(0.22 * min(len(frame), MAX_BARS) + 1.4)
        axes = figure.add_subplot()
        axes.set_title(_make_title("Findings by check", len(frame)), loc="left")
        frame = frame.head(MAX_BARS)
        draw_bars(
            axes, frame["count"].to_list(), [SEVERITY_COLOURS[severity] for severity in frame["severity"]]
        )
        name_rows(axes, frame.index)
        _draw_legend(
            figure,
            {name: SEVERITY_COLOURS[name] for name in SEVERITY_COLOURS if name in set(frame["severity"])},
        )
        set_description(figure, "Findings by check", frame["count"].items())
        return figure

    def bookies(self) -> Figure:
        """Draw the replicas that each bookie should hold: complete, incomplete and unknown ones."""
        frame = self._frames.bookies()
        frame = frame[frame["replicas"] > 0]
        complete_replicas = (frame["replicas"] - frame["missing"] - frame["unknown"]).clip(lower=0)
        renamed_frame = frame.assign(whole=complete_replicas).rename(columns={"missing": "lack entries"})
        replica_counts = renamed_frame[list(REPLICA_COLOURS)]
        title, unit_text = "Replicas by bookie, the worst first", "replicas that the bookie should hold"
        figure = _plot_by_bookie(replica_counts, REPLICA_COLOURS, title, unit_text)
        frame = frame.head(MAX_BARS)
        missing_labels = (frame["missing"].astype(str) + " of " + frame["replicas"].astype(str)).items()
        set_description(figure, "Replicas that lack entries, by bookie", missing_labels)
        return figure

    def space(self) -> Figure:
        """Draw the contents of each bookie's entry logs, in GB."""
        gigabytes = self._frames.space()[list(SPACE_COLOURS)] / 1e9
        title = "Bytes of entry logs by bookie, the fullest first"
        figure = _plot_by_bookie(gigabytes, SPACE_COLOURS, title, "GB")
        sums = gigabytes.head(MAX_BARS).sum(axis=1).round(3)
        set_description(figure, "GB in entry logs, by bookie", sums.items())
        return figure

    def ledgers(self) -> Figure:
        """Draw histograms: ledgers by class, size, age and quorum, and bookies by availability."""
        histograms = self._run.figures.histograms
        figure = new_figure(sum(0.2 * len(histogram.bars) + 0.9 for histogram in histograms))
        heights = [len(histogram.bars) + 2 for histogram in histograms]
        grid = figure.add_gridspec(len(histograms), 1, height_ratios=heights)
        for number, histogram in enumerate(histograms):
            axes = figure.add_subplot(grid[number])
            counts = [bar.count for bar in histogram.bars]
            draw_bars(axes, counts, [REPLICA_COLOURS["whole"]] * len(counts))
            name_rows(axes, [bar.label for bar in histogram.bars])
            axes.set_title(f"{histogram.title}: {histogram.total:,}", loc="left", fontsize=10)
        set_description(
            figure, "Histograms, each with its total", ((chart.title, chart.total) for chart in histograms)
        )
        return figure

    def days(self) -> Figure:
        """Draw, for each day, how many of the ledgers created on that day are not healthy."""
        frame = self._frames.ledgers_by_day()[list(CLASS_COLOURS)]
        frame = frame[frame.sum(axis=1) > 0]
        return _plot_over_time(frame, CLASS_COLOURS, "Ledgers that are not healthy, by creation date")

    def since(self) -> Figure:
        """Draw the findings of this run by the day on which a run first saw them."""
        return _plot_over_time(self._frames.by_day(), SEVERITY_COLOURS, "Findings, by the day first seen")

    def history(self) -> Figure:
        """Draw the findings of the newest runs in the parent directory of this run, by severity."""
        frame = self._frames.history(MAX_BARS)
        figure = new_figure(3.4)
        axes = figure.add_subplot()
        draw_stacked_bars(axes, frame[list(SEVERITY_COLOURS)], SEVERITY_COLOURS)
        name_times(axes, frame.index, "%Y-%m-%d %H:%M")
        axes.set_title("Findings by run", loc="left")
        _draw_legend(figure, SEVERITY_COLOURS)
        set_description(figure, "Findings by run", _sums_by_time(frame[list(SEVERITY_COLOURS)]))
        return figure


def _plot_by_bookie(frame: pd.DataFrame, colours: Mapping[str, str], title: str, unit: str) -> Figure:
    """Draw a horizontal stacked bar for each of the first bookies of a frame."""
    figure = new_figure(0.24 * min(len(frame), MAX_BARS) + 1.6)
    axes = figure.add_subplot()
    axes.set_title(_make_title(title, len(frame)), loc="left")
    draw_stacked_bars(axes, frame.head(MAX_BARS), colours, is_horizontal=True)
    name_rows(axes, frame.head(MAX_BARS).index)
    axes.set_xlabel(unit)
    _draw_legend(figure, colours)
    return figure


def _draw_cells(figure: Figure, frame: pd.DataFrame) -> None:
    """Draw each cell of a frame as a coloured field, with its symbol if there is room. Add a legend."""
    from matplotlib.colors import ListedColormap

    cell_kinds = list(CELL_STYLES)
    kind_numbers = [[cell_kinds.index(Cell(cell)) for cell in row] for row in frame.to_numpy()]
    has_cell_texts = frame.shape[1] <= MAX_COLUMNS_WITH_SIGNS
    [axes] = figure.axes
    axes.pcolormesh(
        kind_numbers,
        cmap=ListedColormap([colour for colour, _ in CELL_STYLES.values()]),
        vmin=-0.5,
        vmax=len(cell_kinds) - 0.5,
        edgecolors="white" if has_cell_texts else "face",
        linewidth=1 if has_cell_texts else 0,
    )
    for row_number, row in enumerate(kind_numbers if has_cell_texts else []):
        for column_number, number in enumerate(row):
            colour = "white" if cell_kinds[number] in _DARK_CELLS else "black"
            axes.text(
                column_number + 0.5,
                row_number + 0.5,
                CELL_STYLES[cell_kinds[number]][1],
                ha="center",
                va="center",
                color=colour,
            )
    present_kinds = {cell_kinds[number] for row in kind_numbers for number in row}
    _draw_legend(
        figure,
        {
            f"{kind} {sign}".strip(): colour
            for kind, (colour, sign) in CELL_STYLES.items()
            if kind in present_kinds
        },
    )


def _plot_over_time(frame: pd.DataFrame, colours: Mapping[str, str], title: str) -> Figure:
    undated_count = int(frame[frame.index.isna()].to_numpy().sum())
    period_frame, period = group_into_periods(frame[frame.index.notna()])
    figure = new_figure(3.4)
    axes = figure.add_subplot()
    draw_stacked_bars(axes, period_frame, colours)
    name_times(axes, period_frame.index)
    title_suffix = f"; {undated_count:,} with an unknown day" if undated_count else ""
    axes.set_title(f"{title}{'' if period == 'day' else f', by {period}'}{title_suffix}", loc="left")
    _draw_legend(figure, colours)
    set_description(figure, axes.get_title(loc="left"), _sums_by_time(period_frame))
    return figure


def _sums_by_time(frame: pd.DataFrame) -> list[tuple[str, int]]:
    """Return (day, sum of all columns) for each row of a frame. Rows with the sum 0 are left out."""
    sums = [(f"{time:%Y-%m-%d}", int(count)) for time, count in frame.sum(axis=1).items()]
    return [row for row in sums if row[1]]


def _draw_legend(figure: Figure, colours: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=colour, edgecolor="#888888", label=name) for name, colour in colours.items()]
    figure.legend(
        handles=patches, loc="outside lower left", ncols=max(len(patches), 1), frameon=False, fontsize=8
    )


def _make_title(title: str, rows: int) -> str:
    return f"{title}: {MAX_BARS} of {rows:,}" if rows > MAX_BARS else title


def new_figure(height: float) -> Figure:
    """Return an empty figure that a notebook shows without pyplot. ``height`` is in inches.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "matplotlib: not installed, and plots need it. Run: pip install matplotlib"
        ) from error

    class InlineFigure(Figure):
        """Figure that a notebook shows without pyplot. Pyplot would keep it in memory until it is closed."""

        def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
            png_stream = BytesIO()
            self.savefig(png_stream, format="png", dpi=110)
            return png_stream.getvalue(), {"alt": str(self.get_label())}

        def _repr_html_(self) -> str:
            # Programs that show a notebook take no alternative text from the metadata of a picture.
            png_bytes, metadata = self._repr_png_()
            image_source = f"data:image/png;base64,{b64encode(png_bytes).decode()}"
            return f'<img alt="{escape(metadata["alt"])}" src="{image_source}">'

    return InlineFigure(figsize=(_WIDTH_INCHES, min(height, _MAX_HEIGHT_INCHES)), layout="constrained")


def set_description(figure: Figure, title: str, rows: Iterable[tuple[object, object]]) -> None:
    """Set the alternative text of a figure: the title, then name and value of the first ``rows``."""
    labels = [
        f"{name} {number:,}" if isinstance(number, int) else f"{name} {number}" for name, number in rows
    ]
    figure.set_label(printable(f"{title}: {first_names(labels, _MAX_TICKS) or 'none'}"))


def make_label(text: str) -> str:
    """Return a name from the cluster as a label: visible characters, no formula, and a limited length.

    >>> make_label("bk-1\\x1b[31m:3181"), make_label("$\\\\frac{1}{2}$")
    ('bk-1?[31m:3181', '\\\\$\\\\frac{1}{2}\\\\$')
    >>> make_label("storage-node-0001.rack-17.dc-2.example.com:3181")
    'storage-node-0001....example.com:3181'
    """
    text = printable(text)
    if len(text) > _MAX_LABEL_LENGTH:
        text = f"{text[: _MAX_LABEL_LENGTH // 2]}...{text[-_MAX_LABEL_LENGTH // 2 + 2 :]}"
    return text.replace("$", "\\$")


def name_rows(axes: Axes, names: Iterable[object], tick_offset: float = 0.0) -> None:
    """Label the rows of a plot with ``names``, the first at the top. ``tick_offset`` shifts the labels."""
    labels = [make_label(str(name)) for name in names]
    axes.set_yticks([number + tick_offset for number in range(len(labels))], labels, fontsize=8)
    axes.margins(y=0.02)
    axes.invert_yaxis()


def draw_bars(axes: Axes, counts: Sequence[int], colours: Sequence[str]) -> None:
    """Draw one horizontal bar for each count, and write the count at its end."""
    drawn_bars = axes.barh(range(len(counts)), counts, color=colours)
    axes.bar_label(drawn_bars, [f"{count:,}" for count in counts], padding=3, fontsize=8)
    set_integer_ticks(axes.xaxis)


def draw_stacked_bars(
    axes: Axes, frame: pd.DataFrame, colours: Mapping[str, str], is_horizontal: bool = False
) -> None:
    """Draw one bar for each row of a frame of counts, with the columns stacked.

    Bars are vertical, or horizontal if ``is_horizontal`` is True.
    """
    bar_starts = [0] * len(frame)
    for name in frame.columns:
        counts = [int(count) for count in frame[name]]
        if not any(counts):
            continue
        if is_horizontal:
            axes.barh(range(len(counts)), counts, left=bar_starts, color=colours[name], label=name)
        else:
            axes.bar(range(len(counts)), counts, bottom=bar_starts, color=colours[name], label=name)
        bar_starts = [offset + height for offset, height in zip(bar_starts, counts, strict=True)]
    set_integer_ticks(axes.xaxis if is_horizontal else axes.yaxis)


def name_times(axes: Axes, times: pd.Index[pd.Timestamp], time_format: str = "%Y-%m-%d") -> None:
    """Label bars with times. Labels without room are left out. A single bar stays narrow."""
    tick_numbers = range(0, len(times), max(-(-len(times) // _MAX_TICKS), 1))
    dates = [times[number].strftime(time_format) for number in tick_numbers]
    axes.set_xlim(-0.6, max(len(times), _MAX_TICKS) - 0.4)
    axes.set_xticks(list(tick_numbers), dates, rotation=30, ha="right", fontsize=8)


def set_integer_ticks(axis: Axis) -> None:
    """Label an axis at whole numbers, because it shows counts."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def group_into_periods(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Add up daily counts into periods, so that few rows remain. Return these rows and the period's name.

    Periods without a count are rows too, so that the axis has a uniform time scale.
    """
    if not len(frame):
        return frame, "day"
    days = (frame.index - frame.index[0]).days
    period = next(name for name, length in _PERIOD_DAYS.items() if days[-1] // length < MAX_TIME_BARS)
    period_numbers = days // _PERIOD_DAYS[period]
    period_sums = frame.groupby(period_numbers).sum().reindex(range(period_numbers[-1] + 1), fill_value=0)
    period_starts = frame.index[0] + pd.to_timedelta(period_sums.index * _PERIOD_DAYS[period], unit="D")
    return period_sums.set_index(period_starts), period
