"""Reference tables that are generated from the program: options, metrics, and tables of a run.

    python -m auditor.reports.reference_pages

writes docs/options.md, docs/tables.md, and the table of metrics in docs/reports.md.
"""

import re
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from auditor.model.finding import Severity
from auditor.model.option_values import FailOn, Option, TextValues, TimeValue, YesNo
from auditor.model.options import AuditOptions, option_types
from auditor.reports.openmetrics import METRIC_LABELS, METRICS
from auditor.tables.run_tables import TABLES

_METRICS_TABLE_PATTERN = re.compile(r"(?<=<!-- metrics -->\n\n)(?:\|.*\n)*")
_TYPE_WORDS = {bool: "true, false", int: "whole number", float: "number", str: "text"}
_OPTIONS_PREFACE = """\
# Options

`python -m auditor.reports.reference_pages` writes this page. Each option is a key in the file of
`--conf`. It is also an argument of `AuditOptions` in Python, and a flag of `bkaudit audit`. The flag of
`rate_limit` is `--rate-limit`. Flags override the file. [conf/audit.toml](../conf/audit.toml) explains when
to change each option.

| option | value | default | |
| --- | --- | --- | --- |
"""
_TABLES_PREFACE = """\
# Tables of a run

`python -m auditor.reports.reference_pages` writes this page. `RUN/tables/NAME` has the table NAME as Parquet.
Each line below names a table and what one row is. [schemas/tables.json](../schemas/tables.json)
explains the columns. In SQL, `DESCRIBE NAME` explains them too, after `run.views(spark)`.
"""


def options_page() -> str:
    """Return docs/options.md: every option with its values, its default and its help."""
    defaults = AuditOptions()
    rows = (
        f"| `{name}` | {_values_text(value_type, option)} | {_default_text(getattr(defaults, name))} "
        f"| {_cell(option.help)} |\n"
        for name, (value_type, option) in option_types().items()
    )
    return _OPTIONS_PREFACE + "".join(rows)


def tables_page() -> str:
    """Return docs/tables.md: the tables that every run has, then the tables that only some runs have."""
    rows_by_run_kind: dict[str, list[str]] = {}
    for name, table in TABLES.items():
        rows_by_run_kind.setdefault(table.run_kind or "every run", []).append(
            f"- `{name}`: {table.row_meaning}\n"
        )
    return _TABLES_PREFACE + "".join(
        f"\n## {run_kind[0].upper()}{run_kind[1:]}\n\n{''.join(rows)}"
        for run_kind, rows in rows_by_run_kind.items()
    )


def metrics_table() -> str:
    """Return the table of docs/reports.md: every metric with its labels and its help."""
    rows = (
        f"| `{name}` | {', '.join(f'`{label}`' for label in METRIC_LABELS.get(name, ()))} | {_cell(help)} |\n"
        for name, help in METRICS.items()
    )
    return "| metric | labels | |\n| --- | --- | --- |\n" + "".join(rows)


def with_metrics_table(page: str) -> str:
    """Return a page in which the table of metrics is up to date.

    >>> with_metrics_table("<!-- metrics -->\\n\\n| old |\\n\\nEnd.\\n").count("bkaudit_gaps")
    1
    """
    return _METRICS_TABLE_PATTERN.sub(lambda _: metrics_table(), page)


def _values_text(value_type: Any, option: Option) -> str:
    """Return the values that an option takes, in words.

    >>> _values_text(float, Option("Seconds.", 0, 60)), _values_text(YesNo, Option("Whether."))
    ('number, 0 to 60', 'yes, no')
    """
    if value_type == FailOn:
        return ", ".join((*map(str, Severity), "new"))
    if value_type == YesNo:
        return ", ".join(get_args(YesNo))
    if value_type == TextValues:
        return "text, or a list of texts"
    value_types = [
        type_option for type_option in get_args(value_type) or (value_type,) if type_option is not NoneType
    ]
    type_word = "time" if set(get_args(TimeValue)) <= set(value_types) else _TYPE_WORDS[value_types[0]]
    if option.low is None:
        return option.pattern_note or type_word
    if option.high is None:
        return f"{type_word}, from {option.low:,.15g}"
    return f"{type_word}, {option.low:,.15g} to {option.high:,.15g}"


def _default_text(value: Any) -> str:
    return "" if value in (None, ()) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main(docs_directory: Path = Path("docs")) -> None:
    """Write the generated pages and tables below ``docs_directory``."""
    (docs_directory / "options.md").write_text(options_page(), "utf-8")
    (docs_directory / "tables.md").write_text(tables_page(), "utf-8")
    reports_page = docs_directory / "reports.md"
    reports_page.write_text(with_metrics_table(reports_page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
