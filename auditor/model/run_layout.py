"""The names in a run directory that more than one package must know.

RUN/manifest.json       sources, times, versions, counts
RUN/tables/<name>/      Parquet
RUN/findings/           Parquet: every finding
RUN/report.json
"""

MANIFEST = "manifest.json"
"""What the run was asked, and what a run that takes it up or compares with it has to know."""
REPORT = "report.json"
"""Written last: a run that has one is whole."""
WHOLE = "_SUCCESS"
"""Spark's mark of a table that is written to the end; so is it of a table that tasks or the driver wrote."""
