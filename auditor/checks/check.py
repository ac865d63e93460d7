"""Definition of a check: one documented question about a cluster.

Spark tables answer questions about ledgers. The roster answers questions about bookies. It is the list of a
cluster's bookies, as plain rows in the driver. Reading this list is faster than a Spark query.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

from auditor.checks import manual
from auditor.checks.manual import SECTIONS, Command
from auditor.checks.needs import Need
from auditor.model.acceptance import DATA_LOSS
from auditor.model.check_settings import constants
from auditor.model.finding import Confidence, Severity, Urgency
from auditor.model.holds import ERASING_ACTIONS, ActionKind, HoldRule, HoldTarget, LiftCondition
from auditor.spark import functions as F
from auditor.spark.table_queries import NeededTables
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.roster import Roster, TableRow

TableFinder = Callable[[Tables], DataFrame]
Findings = Iterator[TableRow]
RosterFinder = Callable[[Roster], Findings]

# Names that the modules of checks import from here, on one line.
__all__ = [
    "ERASING_ACTIONS", "FINDING_COLUMNS", "ActionKind", "Basis", "Check", "Column", "Confidence", "DataFrame",
    "F", "Findings", "HoldRule", "HoldTarget", "LiftCondition", "Need", "Roster", "RosterCheck", "TableRow",
    "Severity", "TableCheck", "Tables", "Urgency", "check", "roster_check",
]  # fmt: skip

DataKind = Literal["records", "copies", "disks", "owners"]
"""Name of the rule in `auditor.findings.rules` that decides whether a run read the data of a `Basis`."""


class Basis(StrEnum):
    """Data that a run must read before the absence of a finding proves that the fault is fixed.

    ``data_kind`` names the rule that decides whether a run read the data. If ``table`` is not None, a run
    without that table did not read the data. A check has the ``needs`` of its basis, unless the check
    declares other needs.
    """

    METADATA = "metadata", "records"
    """Metadata of the store."""
    COPIES = "copies", "copies", None, (Need.COPIES,)
    """Copies of a ledger's entries."""
    DISKS = "disks", "disks", None, (Need.DISKS,)
    """Disks of a bookie."""
    OWNERS = "owners", "owners", None, (Need.OWNERS,)
    """References of applications to ledgers."""
    ENTRY_LOGS = "entry logs", "disks", "entry_logs", (Need.ENTRY_LOGS,)
    """Entry logs of a bookie, which a run reads with ``--entry-logs``."""
    DIGESTS = "digests", "disks", "digests", (Need.ENTRY_LOGS, Need.DIGESTS)
    """Digests of sampled entries, which a run compares with the entries with ``--deep``."""
    OBJECTS = "objects", "owners", "offload_objects", (Need.OWNERS, Need.OBJECTS)
    """Objects that the inventory of a bucket lists, and the references of applications to them."""
    PLACEMENT = "placement", "records", "placement", (Need.LOCATIONS,)
    """Locations of bookies and the placement policy, if the run got them."""

    data_kind: DataKind
    table: str | None
    needs: tuple[Need, ...]

    def __new__(
        cls, name: str, data_kind: DataKind, table: str | None = None, needs: tuple[Need, ...] = ()
    ) -> Self:
        """Return a member with the fields that the class describes."""
        member = str.__new__(cls, name)
        member._value_, member.data_kind, member.table, member.needs = name, data_kind, table, needs
        return member


# Spark type by column, in order. Null in urgency or severity stands for that of the check.
FINDING_COLUMNS = {
    "urgency": "string",
    "severity": "string",
    "confidence": "string",
    "scope_id": "bigint",
    "ledger_id": "bigint",
    "bookie_id": "string",
    "missing": "array<struct<bookie_id:string,groups:binary,count:bigint>>",
    "unknown": "array<string>",
    "message": "string",
    "evidence": "string",
}


URGENCIES_THAT_FORBID_ACTIONS = DATA_LOSS
"""Urgencies that require a check to declare holds. A hold forbids an action while the finding exists."""


@dataclass(frozen=True)
class Check:
    """A question about a cluster. Its id, title and manual page come from the function ``finder``.

    Attributes:
        severity: severity of a finding that does not set its own severity.
        rests_on: data that the run must read before the absence of a finding proves anything.
        needs: inputs that the check needs in addition to the metadata.
        urgency: urgency of the findings. A finding with a milder severity than the check's is not urgent.
        do_now: first action in a few words. ``{bookies}`` or ``{ledgers}`` stands for ids. None if there is
            no first action.
        aliases: former ids of the check.
        action: kind of the action in ``do_now``. None if no hold (a rule) could forbid the action.
        holds: rules for the actions that a finding forbids, whether or not the finding is confirmed.
        settings: names of the constants that the check uses (`auditor.model.check_settings`).
        restarts: whether ``do_now`` starts the stopped bookie again. Holds on starts then forbid it too.

    Raises:
        TypeError: the manual page lacks a section or the risk of a command, or it repeats a section. A name
            in ``settings`` is unknown. The urgency is one of `URGENCIES_THAT_FORBID_ACTIONS`, but the check
            has no rule in ``holds``.
    """

    severity: Severity
    rests_on: Basis
    finder: Callable[..., Any]
    needs: frozenset[Need] = frozenset()
    urgency: Urgency = Urgency.NOT_URGENT
    do_now: str | None = None
    aliases: tuple[str, ...] = ()
    action: ActionKind | None = None
    holds: tuple[HoldRule, ...] = ()
    settings: tuple[str, ...] = ()
    restarts: bool = False

    def __post_init__(self) -> None:
        if missing_sections := [name for name in SECTIONS if not self.sections.get(name)]:
            raise TypeError(f"{self.id}: lacks sections: {', '.join(missing_sections)}")
        if repeated_headings := manual.repeated_headings(self._manual_page):
            raise TypeError(f"{self.id}: repeats headings: {', '.join(repeated_headings)}")
        try:
            manual.commands(self.sections["Commands"])
        except ValueError as error:
            raise TypeError(f"{self.id}: {error}") from error
        if self.urgency in URGENCIES_THAT_FORBID_ACTIONS and not self.holds:
            raise TypeError(f"{self.id}: a check of urgency {self.urgency} must declare at least one hold")
        if unknown_settings := [name for name in self.settings if name not in constants()]:
            raise TypeError(f"{self.id} uses unknown settings: {', '.join(unknown_settings)}")

    @property
    def id(self) -> str:
        """Return the permanent name of the check, for example orphan-ledger."""
        return self.finder.__name__.replace("_", "-")

    @property
    def title(self) -> str:
        """Return the first line of the manual page, one sentence."""
        return self._manual_page.partition("\n")[0]

    @property
    def sections(self) -> dict[str, str]:
        """Return the text of each section of the manual page by its heading, in order."""
        return manual.sections(self._manual_page)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Return the commands of the manual page, in the order in which to use them, with their risks."""
        return manual.commands(self.sections["Commands"])

    @property
    def all_needs(self) -> frozenset[Need]:
        """Return ``needs``, and `Need.METADATA` if the check rests on metadata records or ledger owners."""
        needs_metadata = self.rests_on.data_kind in ("records", "owners")
        return self.needs | {Need.METADATA} if needs_metadata else self.needs

    @property
    def _manual_page(self) -> str:
        return inspect.getdoc(self.finder) or ""


@dataclass(frozen=True)
class TableCheck(Check):
    """A question that Spark tables answer.

    ``asks`` names fields of `Tables`, or parts of such fields (`auditor.tables.parts`). If none of them has
    rows, the check cannot find anything, and the run skips it. If ``asks`` is None, the check always runs.
    """

    asks: NeededTables = None

    def __call__(self, tables: Tables) -> DataFrame:
        """Return one row per finding, in the columns and types of FINDING_COLUMNS."""
        rows: DataFrame = self.finder(tables)
        return rows.selectExpr(*self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the SQL expressions for FINDING_COLUMNS over the rows that ``find`` returns.

        A null severity becomes the check's severity. A null urgency becomes the check's urgency, or
        `Urgency.NOT_URGENT` if the severity is milder than the check's.
        """
        milder_severity_list = ", ".join(
            f"'{severity}'" for severity in Severity if not severity.at_least(self.severity)
        )
        urgency_sql = f"'{self.urgency}'"
        if milder_severity_list:
            urgency_sql = f"IF(severity IN ({milder_severity_list}), '{Urgency.NOT_URGENT}', {urgency_sql})"
        sql_by_column = {
            "urgency": f"coalesce(urgency, {urgency_sql}) AS urgency",
            "severity": f"coalesce(severity, '{self.severity}') AS severity",
        }
        return tuple(sql_by_column.get(name, name) for name in FINDING_COLUMNS)


@dataclass(frozen=True)
class RosterCheck(Check):
    """A question that the roster answers. The roster has rows about bookies in the driver's memory."""

    def __call__(self, roster: Roster) -> list[dict[str, Any]]:
        """Return one row per finding, in the columns of FINDING_COLUMNS."""
        return [{**row, **self._urgency_and_severity(row["severity"])} for row in self.finder(roster)]

    def _urgency_and_severity(self, severity: str | None) -> dict[str, str]:
        row_severity = Severity(severity or self.severity)
        urgency = self.urgency if row_severity.at_least(self.severity) else Urgency.NOT_URGENT
        return {"urgency": str(urgency), "severity": str(row_severity)}


def check(
    severity: Severity,
    *,
    rests_on: Basis,
    needs: Iterable[Need] | None = None,
    asks: NeededTables = None,
    urgency: Urgency = Urgency.NOT_URGENT,
    do_now: str | None = None,
    aliases: tuple[str, ...] = (),
    action: ActionKind | None = None,
    holds: tuple[HoldRule, ...] = (),
    settings: tuple[str, ...] = (),
) -> Callable[[TableFinder], TableCheck]:
    """Turn a documented function into a `TableCheck`. The arguments are the attributes of `Check`.

    >>> @check(Severity.NOTE, rests_on=Basis.DISKS)
    ... def untold(tables): "Something is odd."
    Traceback (most recent call last):
    TypeError: untold: lacks sections: What it finds, Why it matters, How sure, What to do, Commands, Limits
    """
    required_needs = frozenset(rests_on.needs if needs is None else needs)
    return lambda find: TableCheck(
        severity, rests_on, find, required_needs, urgency, do_now, aliases, action, holds, settings, asks=asks
    )


def roster_check(
    severity: Severity,
    *,
    rests_on: Basis,
    needs: Iterable[Need] | None = None,
    urgency: Urgency = Urgency.NOT_URGENT,
    do_now: str | None = None,
    aliases: tuple[str, ...] = (),
    action: ActionKind | None = None,
    holds: tuple[HoldRule, ...] = (),
    settings: tuple[str, ...] = (),
    restarts: bool = False,
) -> Callable[[RosterFinder], RosterCheck]:
    """Turn a documented function that yields rows of `bookie_finding` into a `RosterCheck`.

    The arguments are the attributes of `Check`.
    """
    required_needs = frozenset(rests_on.needs if needs is None else needs)
    return lambda find: RosterCheck(
        severity, rests_on, find, required_needs, urgency, do_now, aliases, action, holds, settings, restarts
    )
