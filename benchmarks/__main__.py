"""Run all benchmarks, one command each.

\b
    python -m benchmarks codec      BP-34's encoder, against the server's own class and a plain loop
    python -m benchmarks scan       metadata and indexes of every form, against the simplest reader of each
    python -m benchmarks live       two scans of a running store, the second of changed ledgers or of all
    python -m benchmarks audit      whole audits: from a cold start, and against an earlier run
    python -m benchmarks watch      rounds of one process, against audits in processes of their own
    python -m benchmarks load       latency of other clients of a server, with and without an audit
    python -m benchmarks page       the HTML report: time to write it and to open it in Chromium
    python -m benchmarks runs       the history of a directory with 10,000 runs
    python -m benchmarks jvm        a cluster of real bookies, by the server's own check and by this program
    python -m benchmarks scale      audits of one and of ten million ledgers, queries of whole tables, parts
                                    of an audit of thirty million, skewed clusters, owners, failures, causes

Each command prints one table. ``--json FILE`` writes it as JSON. ``--markdown FILE`` appends it to a page
of results. ``--only PART`` measures only one part (a module of this package).
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

from benchmarks.measure import Line
from benchmarks.results import as_json, as_markdown, as_text

# The parts of each command in order of measurement. A part is a module of this package with `lines()`.
PARTS_BY_COMMAND = {
    "codec": ("codec_java", "codec"),
    "scan": ("index", "rocksdb", "journal", "entry_log", "metadata", "zookeeper", "etcd", "rpc"),
    "live": ("live_stores", "live_scans"),
    "audit": ("audit", "start", "incremental", "incremental_audit", "incremental_join", "incremental_etcd"),
    "watch": ("watch",),
    "jvm": ("jvm",),
    "load": ("load_stores", "load_bookie"),
    "page": ("html_page",),
    "runs": ("many_runs",),
    "scale": ("scale", "large_tables", "sampled", "skew", "owners", "loss", "causes"),
}


@click.command(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("command", type=click.Choice(list(PARTS_BY_COMMAND)))
@click.option("--only", metavar="PART", help="One part of the command alone.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the table here as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Add the table to this file as Markdown.")
def main(command: str, only: str | None, json_file: Path | None, markdown: Path | None) -> None:
    """Run one command's benchmarks, print the table, and write it as JSON and Markdown if asked to."""
    selected_parts = [part_name for part_name in PARTS_BY_COMMAND[command] if only in (None, part_name)]
    if not selected_parts:
        raise click.UsageError(
            f"--only {only}: {command} has the parts {', '.join(PARTS_BY_COMMAND[command])}"
        )
    measured_lines = list(_lines(selected_parts))
    click.echo(as_text(measured_lines))
    if json_file is not None:
        json_file.write_text(as_json(command, measured_lines))
    if markdown is not None:
        with markdown.open("a") as results_page:
            results_page.write(as_markdown(command, measured_lines) + "\n")


def _lines(part_names: list[str]) -> Iterator[Line]:
    for part_name in part_names:
        for line in import_module(f"benchmarks.{part_name}").lines():
            comparison = "" if line.ratio is None else f", {line.ratio:.2f}x {line.rival}"
            click.echo(f"{line.stage}: {line.rate:,.0f} {line.unit}/s{comparison}", err=True)
            yield line


if __name__ == "__main__":
    main()
