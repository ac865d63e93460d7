"""Options in groups: which option stands under which heading of a command's help."""

from __future__ import annotations

import click

GROUPS: dict[str, tuple[str, ...]] = {
    "What to read": (
        "cluster", "metadata", "bookies", "credentials", "owners", "offload_listing", "bookie_conf", "conf",
    ),
    "Run and report": (
        "out", "start_spark", "form", "forms", "flat", "samples", "since", "resume_within", "quiet",
        "verbose", "log_level",
    ),
    "Exit code": ("fail_on", "fail_on_suspect", "suppressions"),
    "Times and doubts": ("grace", "owner_grace", "scan_time", "index_time"),
    "Placement": ("racks", "rack_script", "placement"),
    "Entry logs": ("entry_logs", "deep", "digest_entries", "digest_percent", "digest_budget"),
    "Load on servers": (
        "rate_limit", "in_flight", "batch", "timeout", "bookie_rate_limit", "bookie_in_flight", "witness",
        "witness_reads",
    ),
    "Spark": ("threads", "parts_per_core", "master", "driver_memory"),
}  # fmt: skip
"""Names of options by heading, both in the order of the help."""


class GroupedCommand(click.Command):
    """A command whose help has its options under the headings of `GROUPS`, and any other at the end."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading that the command has options of."""
        shown = {
            param.name: record for param in self.get_params(ctx) if (record := param.get_help_record(ctx))
        }
        for heading, names in GROUPS.items():
            records = [shown.pop(name) for name in names if name in shown]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        with formatter.section("Other options"):
            formatter.write_dl(list(shown.values()))
