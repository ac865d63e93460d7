"""Options that several commands share, and the headings under which the help of a command lists them."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import click

from auditor.cli import completion
from auditor.cli.defaults import CONF_VARIABLE, Sources, new_run, newest_run, runs_directory
from auditor.cli.verbosity import say
from auditor.errors import UsageError
from auditor.model.finding import Severity
from auditor.model.ledger_id import LedgerId
from auditor.model.option_values import NEW_FINDINGS, FailOn, TextValues, TimeValue, YesNo
from auditor.model.options import AuditOptions, option_types
from auditor.sources.regular_file import read_toml

Command = TypeVar("Command", bound=Callable[..., Any])

URI_FORMS = """\b
zk://HOST:2181;HOST:2181/ledgers
etcd://HOST:2379/SCOPE
metadata-store:oxia://HOST:6648/NAMESPACE
zk-snapshot:///DIR/version-2?root=/ledgers
etcd-snapshot:///FILE.db?scope=/SCOPE
dump:///FILE.jsonl?root=/ledgers"""
"""Forms of a metadata URI, one on each line. A user could not copy a form that the help folds at a hyphen."""

METADATA_HELP = f"Location of the metadata, in one of these forms.\n\n{URI_FORMS}"

BOOKIES_HELP = (
    "Where bookies' indexes are: a directory with one subdirectory per bookie, an inventory file, "
    "collected tables (a directory or a glob), or rpc: to ask the bookies. May be repeated."
)


def bookies_option(help: str = BOOKIES_HELP) -> Callable[[Command], Command]:
    """Add --bookies, which a user may repeat."""
    return click.option(
        "--bookies", metavar="PATH", multiple=True, shell_complete=completion.paths, help=help
    )


metadata_option = click.option("--metadata", metavar="URI", help=METADATA_HELP)

cluster_option = click.option(
    "--cluster",
    metavar="NAME",
    shell_complete=completion.clusters,
    help="Name of a cluster in the --conf file, which has the locations of the cluster's "
    "metadata, bookies and runs.",
)

conf_option = click.option(
    "--conf",
    type=click.Path(path_type=Path),
    envvar=CONF_VARIABLE,
    help="A file of options, such as `bkaudit conf show audit.toml` prints. Flags override the file.",
)

clusters_option = click.option(
    "--conf",
    type=click.Path(path_type=Path),
    envvar=CONF_VARIABLE,
    help="A file of options that defines the cluster given with --cluster.",
)

out_option = click.option(
    "--out",
    metavar="RUN",
    shell_complete=completion.paths,
    help="The run directory to create.  [default: ./runs/<time>]",
)

run_option = click.option(
    "--run", metavar="RUN", shell_complete=completion.runs, help="A finished run.  [default: the newest]"
)


def source_options(command: Command) -> Command:
    """Add --metadata and --cluster, which name the metadata store. The default is BKAUDIT_METADATA."""
    return cluster_option(metadata_option(command))


def runs_options(command: Command) -> Command:
    """Add --cluster and --conf, which together name the directory of runs."""
    return cluster_option(clusters_option(command))


run_argument = click.argument("run", metavar="[RUN]", required=False, shell_complete=completion.runs)


def pass_run_path(*tables: str) -> Callable[[Command], Command]:
    """Add --cluster and --conf, and pass the path of RUN to the command. By default, RUN is the newest run.

    ``tables`` are the names of tables that the command needs. A run that lacks one of these tables counts as
    damaged. If the command fails because the run is damaged, the error names the damaged part.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_run(*, run: str | None, cluster: str | None, conf: Path | None, **parameters: Any) -> Any:
            from auditor.runs.damage import check_run

            run_path = run or newest_run(runs_directory(cluster, conf))
            with check_run(run_path, *tables):
                return command(run=run_path, **parameters)

        setattr(with_run, REQUIRED_TABLES, tables)
        return runs_options(cast(Command, with_run))

    return decorate


REQUIRED_TABLES = "required_tables"
"""Name of the attribute of a command's function that has the table names passed to `pass_run_path`."""


credentials_option = click.option(
    "--credentials",
    metavar="FILE",
    shell_complete=completion.paths,
    help=f"{option_types()['credentials'][1].help}  [default: the file in BKAUDIT_CREDENTIALS]",
)

_DECIMAL_PATTERN = re.compile("-?[0-9]{1,20}")

_SIGNED_64_BIT_RANGE = range(-(2**63), 2**63)
"""Valid scopes and ids: signed 64-bit numbers. A larger number would wrap around to another id."""


def tuning_options(command: Command) -> Command:
    """Add every option of conf/audit.toml as a flag, and --conf."""
    return option_flags(*option_types())(command)


STORE_OPTIONS = ("rate_limit", "in_flight", "batch", "timeout", "credentials")
"""Options for reading a metadata store."""

SCAN_OPTIONS = (
    "scan_time",
    "since",
    "resume_within",
    *STORE_OPTIONS,
    "parts_per_core",
    "master",
    "driver_memory",
)
"""Options for ``bkaudit scan``, which reads only the metadata."""

DOCTOR_OPTIONS = (
    *("grace", "scan_time", "index_time", "owners", "owners_complete", *STORE_OPTIONS),
    *("bookie_rate_limit", "bookie_in_flight", "master", "driver_memory"),
)
"""Options for ``bkaudit doctor``, the diagnosis before an audit."""

DEMO_OPTIONS = ("suppressions", "samples", "master", "driver_memory")
"""Options for ``bkaudit demo``, which sets all other options of its audit itself."""

_COMPLETERS = {
    "FILE": completion.paths,
    "RUN": completion.earlier_runs,
    "POLICY": completion.policies,
    "ID,...": completion.check_lists,
}
"""Function for shell completion of an option's value, by the value's placeholder in the help."""


def option_flags(*option_names: str) -> Callable[[Command], Command]:
    """Add flags for the options of conf/audit.toml that ``option_names`` lists, and --conf."""

    def decorate(command: Command) -> Command:
        for name in reversed(option_names):
            value_type, option = option_types()[name]
            default = getattr(AuditOptions(), name)
            default_note = f" [default: {default}]" if default not in (None, ()) else ""
            flag = f"--{name.replace('_', '-')}"
            if value_type is bool:
                # --no-X overrides a true in the file.
                add_flag = click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=option.help)
            else:
                add_flag = click.option(
                    flag,
                    name,
                    type=_click_type_of(value_type),
                    metavar=option.placeholder or None,
                    multiple=value_type == TextValues,
                    shell_complete=_COMPLETERS.get(option.placeholder),
                    help=option.help + default_note,
                )
            command = add_flag(command)
        return conf_option(command)

    return decorate


def _click_type_of(value_type: Any) -> click.ParamType[Any]:
    if value_type == FailOn:
        return click.Choice([*(str(severity) for severity in Severity), NEW_FINDINGS])
    if value_type == YesNo:
        return click.Choice(get_args(YesNo))
    if value_type == (TimeValue | None):
        return click.STRING  # milliseconds or ISO 8601: AuditOptions tells them apart
    if value_type == TextValues:
        return click.STRING
    return {float: click.FLOAT, str: click.STRING, str | None: click.STRING}.get(value_type, click.INT)


def options_from_flags(conf: Path | None, flags: dict[str, Any]) -> AuditOptions:
    """Return the options of an audit. Flags override the file ``conf``, and the file overrides the defaults.

    Raises:
        UsageError: an option, a check or a setting is invalid.
    """
    options = AuditOptions.from_values(read_toml(conf), conf) if conf is not None else AuditOptions()
    # A repeatable flag that was not given is an empty tuple, which must not override the file.
    options = options.with_overrides(
        {
            name: flags.get(name) or None if value_type == TextValues else flags.get(name)
            for name, (value_type, _) in option_types().items()
        }
    )
    if options.checks or options.skip_checks or options.check_settings is not None:
        # A slow import, which loads every check.
        from auditor.checks.configuration import read_check_configuration

        read_check_configuration(options)  # only to raise its errors early
    return options


def format_option(*formats: str) -> Callable[[Command], Command]:
    """Add --format. The first format is the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Format of the output.",
    )


class ScaledNumber(click.ParamType[int]):
    """Click parameter type of a whole number above 0, which a letter for the unit may follow."""

    def __init__(self, name: str, units: Mapping[str, int], expected_value_text: str) -> None:
        self.name, self._units, self._expected = name, units, expected_value_text

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, converted to the smallest unit."""
        text = str(value).strip()
        digits, unit = (text[:-1], text[-1:]) if text[-1:] in self._units else (text, "")
        if not digits.isdecimal() or not int(digits):
            self.fail(f"{text!r} is not {self._expected}", param, ctx)
        return int(digits) * self._units.get(unit, 1)


def choose_run(command_name: str, inputs: Sources, options: AuditOptions) -> str:
    """Return the path of the newest interrupted run with the same inputs and options, or of a new run."""
    from auditor.audit.run_store import run_identity, unfinished_run

    run_identity_digest = run_identity(command_name, inputs.metadata, inputs.bookies, options)
    run = unfinished_run(inputs.runs, run_identity_digest, options.resume_within)
    if run is None:
        return new_run(inputs.runs)
    say(f"resuming interrupted run {run}")
    return run


def ledger_options(command: Command) -> Command:
    """Add the argument ID and the three options of BP-35, with which a user names a ledger.

    The command gets the ledger as its parameter ``ledger_id``.
    """

    @wraps(command)
    def with_ledger(
        *, id: str | None, ledger_id: int | None, ledger_scope_id: int | None,
        ledger_qualified_name: str | None, **parameters: Any,
    ) -> Any:  # fmt: skip
        full_id = pick_ledger(id, ledger_id, ledger_scope_id, ledger_qualified_name)
        return command(ledger_id=full_id, **parameters)

    command_with_options: Any = with_ledger
    for option in (
        click.argument("id", metavar="[ID]", required=False),
        click.option("--ledger-qualified-name", metavar="HEX", help="BP-35 scope and id, 32 hex digits."),
        click.option("--ledger-scope-id", type=int, help="BP-35 scope of the ledger.  [default: 0]"),
        click.option("--ledger-id", type=int, help="The ledger's id in its scope."),
    ):
        command_with_options = option(command_with_options)
    return cast(Command, command_with_options)


def pick_ledger(
    id: str | None, ledger_id: int | None, ledger_scope_id: int | None, ledger_qualified_name: str | None
) -> LedgerId:
    """Return the ledger that the argument ``id`` or the options name.

    The argument is the lower 64 bits of an id, or all 128 bits (scope and id) in 32 hexadecimal digits.

    >>> pick_ledger("42", None, 7, None)
    LedgerId(id=42, scope=7)
    >>> pick_ledger("00000000000000070000000000000001", None, None, None)
    LedgerId(id=1, scope=7)
    """
    if id is None:
        return named_ledger(ledger_id, ledger_scope_id, ledger_qualified_name)
    if not _DECIMAL_PATTERN.fullmatch(id):
        if (ledger_id, ledger_scope_id, ledger_qualified_name) != (None, None, None):
            raise UsageError(f"{id}: contains scope and id. Omit --ledger-id and similar options")
        return LedgerId.parse(id)
    if ledger_id not in (None, int(id)):
        raise UsageError(f"--ledger-id {ledger_id}: the argument has ledger {id}. Omit the option")
    return named_ledger(int(id), ledger_scope_id, ledger_qualified_name)


def named_ledger(
    ledger_id: int | None, ledger_scope_id: int | None, ledger_qualified_name: str | None
) -> LedgerId:
    """Return the ledger that --ledger-id, --ledger-scope-id or --ledger-qualified-name specify."""
    if ledger_qualified_name is not None:
        if ledger_id is not None or ledger_scope_id is not None:
            raise UsageError("--ledger-qualified-name: contains scope and id. Omit the other options")
        return LedgerId.parse(ledger_qualified_name)
    if ledger_id is None:
        raise UsageError("no ledger was given. Pass ID, --ledger-id or --ledger-qualified-name")
    if ledger_id not in _SIGNED_64_BIT_RANGE:
        raise UsageError(f"--ledger-id {ledger_id}: ids are signed 64-bit numbers")
    return LedgerId(ledger_id, scope_id_of(ledger_scope_id))


def named_ledgers(ledger_names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Parse names of ledgers into pairs of scope and id (the upper and lower 64 bits of a 128-bit id).

    A name is an id in scope 0, or scope and id in 32 hexadecimal digits.

    >>> named_ledgers(["42", "00000000000000070000000000000001"])
    ((0, 42), (7, 1))
    """
    ledgers = []
    for name in ledger_names:
        if _DECIMAL_PATTERN.fullmatch(name):
            ledger = named_ledger(int(name), None, None)
        else:
            ledger = named_ledger(None, None, name)
        ledgers.append((ledger.scope, ledger.id))
    return tuple(ledgers)


def scope_id_of(ledger_scope_id: int | None) -> int:
    """Return the scope (upper 64 bits of a ledger id) that --ledger-scope-id names. It is 0 by default."""
    if ledger_scope_id is not None and ledger_scope_id not in _SIGNED_64_BIT_RANGE:
        raise UsageError(f"--ledger-scope-id {ledger_scope_id}: scopes are signed 64-bit numbers")
    return ledger_scope_id or 0


OPTION_GROUPS: dict[str, tuple[str, ...]] = {
    "What to read": (
        "cluster", "metadata", "bookies", "credentials", "owners", "owners_complete",
        "offload_listing", "bookie_conf", "conf",
    ),
    "Run and report": (
        "out", "stop_after", "start_spark", "form", "forms", "flat", "samples", "since", "resume_within",
        "quiet", "verbose", "log_level",
    ),
    "Exit code": ("fail_on", "fail_on_suspect", "suppressions"),
    "Checks": ("checks", "skip_checks", "check_settings"),
    "Times and uncertainty": ("grace", "owner_grace", "scan_time", "index_time"),
    "Placement": ("racks", "rack_script", "placement"),
    "Entry logs": ("entry_logs", "deep", "digest_entries", "digest_percent", "digest_budget"),
    "Load on servers": (
        "rate_limit", "in_flight", "batch", "timeout", "bookie_rate_limit", "bookie_in_flight", "witness",
        "witness_reads",
    ),
    "Spark": ("threads", "parts_per_core", "master", "driver_memory"),
}  # fmt: skip
"""Names of the options below each heading of the help. Headings and names have the order of the help."""


class GroupedCommand(click.Command):
    """Command whose help lists options below the headings of `OPTION_GROUPS`, and all other options last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading under which the command has options, then all other options."""
        help_by_name = {
            parameter.name: help_record
            for parameter in self.get_params(ctx)
            if (help_record := parameter.get_help_record(ctx))
        }
        for heading, option_names in OPTION_GROUPS.items():
            help_records = [help_by_name.pop(name) for name in option_names if name in help_by_name]
            if help_records:
                with formatter.section(heading):
                    formatter.write_dl(help_records)
        with formatter.section("Other options"):
            formatter.write_dl(list(help_by_name.values()))
