"""Options of an audit: their defaults, bounds and descriptions.

The fields of `AuditOptions` declare each option once. The file conf/audit.toml, the command-line flags and
the Python interface are generated from these fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from auditor.errors import UsageError
from auditor.model.finding import Severity
from auditor.model.option_values import FailOn, Option, TextValues, TimeValue, YesNo, check_value

CLUSTERS_TABLE = "clusters"
"""Name of the table with clusters in a file of options (`auditor.cli.defaults`)."""

LAST_RUN = "last"
"""Value of ``--since`` for the cluster's newest run with complete tables next to the new run's directory."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit. The defaults suit a cluster in production.

    Durations are in seconds. Times are stored as milliseconds since 1970. A text in ISO 8601 without a time
    zone is read as UTC. ``rate_limit`` is the number of reads per second of the whole audit.

    >>> AuditOptions(scan_time="2026-11-21T07:00:00Z").scan_time
    1795244400000

    >>> AuditOptions(samples=-1)
    Traceback (most recent call last):
    auditor.errors.UsageError: samples: -1 is below 0

    Raises:
        UsageError: a value has the wrong type or is out of bounds. The message names the option and the
            value.
    """

    fail_on: Annotated[
        FailOn,
        Option(
            "The lowest severity of a confirmed finding that sets exit code 1. With new, only errors or "
            "worse count, and only if they are new or worse than in the previous run. Lost data and data "
            "about to be deleted always count."
        ),
    ] = Severity.ERROR
    fail_on_suspect: Annotated[
        bool,
        Option("Unconfirmed findings also set exit code 1. Without this option they set exit code 3."),
    ] = False
    suppressions: Annotated[
        str | None,
        Option(
            "A file of accepted findings, each with a reason and a last day. Accepted findings do not "
            "change the exit code.",
            placeholder="FILE",
        ),
    ] = None
    samples: Annotated[
        int,
        Option(
            "Number of findings of each check that a report shows. Counts are always complete.", 0, 10_000
        ),
    ] = 20
    checks: Annotated[
        TextValues,
        Option(
            "Ids of the checks to run, separated by commas. May be repeated. Without this option, all "
            "checks run.",
            placeholder="ID,...",
        ),
    ] = ()
    skip_checks: Annotated[
        TextValues,
        Option(
            "Ids of checks that do not run. The report lists them, and the exit code is never 0. Actions "
            "that findings of these checks could forbid are refused.",
            placeholder="ID,...",
        ),
    ] = ()
    check_settings: Annotated[
        str | None,
        Option(
            "A TOML file with the keys checks and skip_checks, and a table named constants with the "
            "constants of checks.",
            placeholder="FILE",
        ),
    ] = None
    grace: Annotated[
        float,
        Option(
            "Time in seconds. If a ledger changed less than this before an index was written, its "
            "missing entries are reported as suspect.",
            0,
            1e9,
        ),
    ] = 60.0
    scan_time: Annotated[
        TimeValue | None,
        Option(
            "Time of the scan, from which ages are computed. It replaces the store's own clock, or the "
            "newest time in the store.",
            0,
            placeholder="TIME",
        ),
    ] = None
    index_time: Annotated[
        TimeValue | None,
        Option(
            "Time of all indexes. It replaces the times that each bookie's journal and lastMark show.",
            0,
            placeholder="TIME",
        ),
    ] = None
    since: Annotated[
        str | None,
        Option(
            "An earlier run of this cluster, or the word last (the newest run in this run's parent "
            "directory). Data that has not changed since then is taken from that run. The findings are "
            "the same as without this option.",
            placeholder="RUN",
        ),
    ] = None
    resume_within: Annotated[
        float,
        Option(
            "Time in seconds. An unfinished run on a running store is resumed if its oldest table is "
            "younger than this. Otherwise, all its tables are read again.",
            0,
            1e9,
        ),
    ] = 900.0
    owners: Annotated[
        TextValues,
        Option(
            "An owner store, as pulsar:URI. Owners are objects that refer to ledgers, such as Pulsar's "
            "topics. May be repeated. none: read no owners. Without this option, owners are read from "
            "the metadata store, next to BookKeeper's root.",
            placeholder="URI",
        ),
    ] = ()
    owners_complete: Annotated[
        TextValues,
        Option(
            "An owner store, in the form of the option owners. May be repeated. With this option, the "
            "operator declares that no other store refers to ledgers of this cluster. Without it, no "
            "ledger is confirmed to be unowned.",
            placeholder="URI",
        ),
    ] = ()
    owner_grace: Annotated[
        float,
        Option(
            "Time in seconds. A ledger younger than this is never reported as unowned, because its owner "
            "may not have recorded it yet. Only two runs at least this far apart confirm an unowned "
            "ledger. With less than 4 hours (a broker's rollover), no ledger is confirmed as unowned.",
            0,
            1e9,
        ),
    ] = 86_400.0
    offload_listing: Annotated[
        str | None,
        Option(
            "An inventory of the bucket with offloaded ledgers: CSV or Parquet with the names and sizes "
            "of objects. Without it, the objects are not checked (docs/owners.md).",
            placeholder="FILE",
        ),
    ] = None
    rate_limit: Annotated[
        float, Option("Largest number of reads per second from a live store, over all tasks; 0: no limit.", 0)
    ] = 20_000.0
    in_flight: Annotated[
        int, Option("Largest number of unanswered requests on one connection to a live store.", 1, 1_000)
    ] = 4
    batch: Annotated[int, Option("Number of znodes in one request (multiRead).", 1, 10_000)] = 200
    timeout: Annotated[
        float, Option("Seconds to wait for a connection, and for each answer.", 0.1, 3_600)
    ] = 10.0
    credentials: Annotated[
        str | None,
        Option(
            "A file of users, passwords and certificates for a live store; only its path is recorded.",
            placeholder="FILE",
        ),
    ] = None
    bookie_rate_limit: Annotated[
        float,
        Option(
            "Largest number of listings (rpc:) and entry reads (witness) per second for one bookie; 0: no "
            "limit.",
            0,
        ),
    ] = 1_000.0
    bookie_in_flight: Annotated[
        int,
        Option(
            "Largest number of unanswered listings (rpc:) or entry reads (witness) for one bookie.", 1, 1_000
        ),
    ] = 32
    witness: Annotated[
        YesNo,
        Option(
            "Whether the audit asks registered bookies of a live store, by plain reads, for entries that "
            "seem to be missing."
        ),
    ] = "yes"
    witness_reads: Annotated[
        int,
        Option(
            "Largest number of entries that an audit asks bookies for. At most half of them are read "
            "from the same bookie.",
            1,
            10**6,
        ),
    ] = 10_000
    entry_logs: Annotated[
        bool, Option("Read entry logs too, and attribute every byte of them to a ledger.")
    ] = False
    deep: Annotated[
        bool,
        Option(
            "With entry_logs: compare every ledgers map with all entries of its log. Read sampled "
            "entries completely, and compare them with their digests and their other copies."
        ),
    ] = False
    digest_entries: Annotated[
        int,
        Option("With deep: number of entries to read completely at the start of every ledger.", 0, 10**9),
    ] = 3
    digest_percent: Annotated[
        float,
        Option(
            "With deep: percentage of all later entries to read completely; the same entries on every "
            "bookie.",
            0,
            100,
        ),
    ] = 0.1
    digest_budget: Annotated[
        int,
        Option("With deep: largest number of MB of entries to read completely from one bookie.", 1, 10**9),
    ] = 1_000
    bookie_conf: Annotated[
        str | None,
        Option(
            "A bookie's configuration file (bk_server.conf). It has the settings of garbage "
            "collection, and the id and the directories of the bookie's next start. Without it, the audit "
            "assumes the server's defaults.",
            placeholder="FILE",
        ),
    ] = None
    racks: Annotated[
        str | None,
        Option(
            "A file with the locations of bookies: TOML, Pulsar's JSON, or two columns, bookie (or host) "
            "and location. The ending of its name determines the format. Without this option, Pulsar's "
            "/bookies next to BookKeeper's root is read.",
            placeholder="FILE",
        ),
    ] = None
    rack_script: Annotated[
        str | None,
        Option(
            "A topology script, as in networkTopologyScriptFileName. It runs on this machine, with "
            "the addresses of registered bookies.",
            placeholder="FILE",
        ),
    ] = None
    placement: Annotated[
        str | None,
        Option(
            "The placement policy: rack, region, zone or none, followed by any settings under the "
            "server's names (rack,minNumRacksPerWriteQuorum=3). Or a configuration file, such as "
            "broker.conf or bk_server.conf.",
            placeholder="POLICY",
        ),
    ] = None
    threads: Annotated[
        int,
        Option(
            "Number of threads that read index files in one task; use 4 to 8 if the files are not cached.",
            1,
            64,
        ),
    ] = 1
    parts_per_core: Annotated[int, Option("Number of tasks for each Spark core in a scan.", 1, 1_000)] = 4
    master: Annotated[
        str, Option("Spark's master, used only if no Spark session is running.", placeholder="MASTER")
    ] = "local[*]"
    driver_memory: Annotated[
        str,
        Option(
            "Memory of Spark's driver, used only if no Spark session is running.",
            pattern="[1-9][0-9]{0,9}[kKmMgGtT][bB]?",
            pattern_note="a number with k, m, g or t, such as 4g",
            placeholder="SIZE",
        ),
    ] = "2g"

    def __post_init__(self) -> None:
        for name, (value_type, option) in option_types().items():
            object.__setattr__(self, name, check_value(name, value_type, option, getattr(self, name)))
        if self.deep and not self.entry_logs:
            raise UsageError("deep: reads entry logs, so entry_logs must be true too")

    @classmethod
    def from_values(cls, values: Mapping[str, Any], file_name: str | Path) -> AuditOptions:
        """Return options with the values in a file such as conf/audit.toml.

        An option that is not in the file keeps its default.

        Args:
            values: the values in the file (`auditor.sources.regular_file.read_toml`).
            file_name: name of the file in messages.

        Raises:
            UsageError: a key is not an option, or a value is bad. The message names the key.
        """
        types = option_types()
        file_values = {key: value for key, value in values.items() if key != CLUSTERS_TABLE}
        for key in file_values:
            if key not in types:
                raise UsageError(f"{file_name}: {key}: no such option; valid options: {', '.join(types)}")
        try:
            return cls(**file_values)
        except UsageError as error:
            raise UsageError(f"{file_name}: {error}") from error

    def with_overrides(self, values: Mapping[str, Any]) -> AuditOptions:
        """Return a copy of these options with the given values. Values that are None change nothing.

        >>> AuditOptions().with_overrides({"samples": 5, "threads": None}).samples
        5
        """
        return replace(self, **{name: value for name, value in values.items() if value is not None})


@cache
def option_types() -> dict[str, tuple[Any, Option]]:
    """Return the type and the description of every option, by name, in order of declaration.

    >>> option_types()["threads"][1].high
    64
    """
    hints = get_type_hints(AuditOptions, include_extras=True)
    return {name: get_args(hint) for name, hint in hints.items()}


def parse_texts(value: TextValues) -> tuple[str, ...]:
    """Return the texts of an option as a tuple. `AuditOptions` stores them in this form."""
    assert isinstance(value, tuple)
    return value


def to_time_ms(value: TimeValue) -> int:
    """Return the time of an option in ms since 1970. `AuditOptions` stores times in this form."""
    assert isinstance(value, int)
    return value
