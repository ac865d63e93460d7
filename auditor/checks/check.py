"""What a check is: one documented question, asked of the tables.

What is of ledgers is asked of Spark's tables. What is of bookies is asked of the roster, plain rows that the
driver holds: to prepare a query costs more than to look at every bookie that a cluster could have.
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
from auditor.model.holds import ERASES, ActionKind, HoldRule, HoldTarget, Lift
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.roster import Roster, Row

Find = Callable[[Tables], DataFrame]
Findings = Iterator[Row]
FindBookies = Callable[[Roster], Findings]

# What checks take from here, so that each has one line for it.
__all__ = [
    "ERASES", "FINDING_COLUMNS", "ActionKind", "Basis", "Check", "Column", "Confidence", "DataFrame", "F",
    "Findings", "HoldRule", "HoldTarget", "Lift", "Need", "Roster", "RosterCheck", "Row", "Severity",
    "TableCheck", "Tables", "Urgency", "check", "roster_check",
]  # fmt: skip

Way = Literal["records", "copies", "disks", "owners"]
"""How it is known whether a basis was looked at."""


class Basis(StrEnum):
    """What the absence of a finding rests on: unless that was looked at, nothing is fixed.

    Each is a word, the way in which `auditor.findings.basis` tells whether it was looked at, the table
    without which it was not (one that a run has only where it was asked to), and what checks that rest on it
    need unless they say otherwise. A new basis is a row here.
    """

    METADATA = "metadata", "records"
    """The store alone shows it."""
    COPIES = "copies", "copies", None, (Need.COPIES,)
    """Whether a ledger has its copies."""
    DISKS = "disks", "disks", None, (Need.DISKS,)
    """What lies on a bookie's disks."""
    OWNERS = "owners", "owners", None, (Need.OWNERS,)
    """Who refers to ledgers, as applications keep it."""
    ENTRY_LOGS = "entry logs", "disks", "entry_logs", (Need.ENTRY_LOGS,)
    """What lies in a bookie's entry logs, which are read only where a run is asked to."""
    DIGESTS = "digests", "disks", "digests", (Need.ENTRY_LOGS, Need.DIGESTS)
    """What sampled entries are, which are read completely only where a run is asked to look deep."""
    OBJECTS = "objects", "owners", "offload_objects", (Need.OWNERS, Need.OBJECTS)
    """What a bucket has, by the inventory that a run is given, and who refers to it."""
    PLACEMENT = "placement", "records", "placement", (Need.LOCATIONS,)
    """Where bookies stand and by which policy, which a run knows only where somebody says it."""

    way: Way
    table: str | None
    needs: tuple[Need, ...]

    def __new__(cls, word: str, way: Way, table: str | None = None, needs: tuple[Need, ...] = ()) -> Self:
        """One of these rows."""
        member = str.__new__(cls, word)
        member._value_, member.way, member.table, member.needs = word, way, table, needs
        return member


# Column and Spark type, in order. A check leaves urgency and severity null where its own hold.
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


MUST_HOLD = DATA_LOSS
"""Urgencies whose checks declare what must not be done while a finding of theirs stands."""


@dataclass(frozen=True)
class Check:
    """A question: a `TableCheck` or a `RosterCheck`, by what it is asked of.

    Its id, title and manual page are those of its function. A check that leaves a section of its manual
    page out or has it twice, or leaves out the risk of a command, cannot be made: TypeError. ``severity`` is
    what its findings have unless they say otherwise, and so is ``urgency``, which a milder one does not
    have; ``aliases`` are ids that it had before. ``do_now`` is what to do about its findings at once, in a
    few words with ``{bookies}`` or ``{ledgers}`` where their names stand; None where nothing presses.
    ``action`` is the kind of that instruction, None where it does nothing that a hold could forbid.
    ``holds`` are what its findings forbid, unconfirmed ones too, until they are lifted. A check whose urgency
    is one of the two highest cannot be made without any: TypeError. ``settings`` are the constants that it
    uses (`auditor.model.check_settings`); an unknown name is a TypeError.
    """

    severity: Severity
    rests_on: Basis
    find: Callable[..., Any]
    needs: frozenset[Need] = frozenset()
    urgency: Urgency = Urgency.REST
    do_now: str | None = None
    aliases: tuple[str, ...] = ()
    action: ActionKind | None = None
    holds: tuple[HoldRule, ...] = ()
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if missing := [name for name in SECTIONS if not self.sections.get(name)]:
            raise TypeError(f"{self.id} does not document: {', '.join(missing)}")
        if repeated := manual.repeated_headings(self._manual):
            raise TypeError(f"{self.id} documents more than once: {', '.join(repeated)}")
        try:
            manual.commands(self.sections["Commands"])
        except ValueError as error:
            raise TypeError(f"{self.id}: {error}") from error
        if self.urgency in MUST_HOLD and not self.holds:
            raise TypeError(f"{self.id}: its urgency is {self.urgency}, and it declares no hold")
        if unknown := [name for name in self.settings if name not in constants()]:
            raise TypeError(f"{self.id} uses unknown settings: {', '.join(unknown)}")

    @property
    def id(self) -> str:
        """The word that names it for ever, such as orphan-ledger."""
        return self.find.__name__.replace("_", "-")

    @property
    def title(self) -> str:
        """The first line of its manual page: one sentence."""
        return self._manual.partition("\n")[0]

    @property
    def sections(self) -> dict[str, str]:
        """The rest of its manual page: text by heading, in order."""
        return manual.sections(self._manual)

    @property
    def commands(self) -> tuple[Command, ...]:
        """What to type, in the order in which it helps, and what each risks."""
        return manual.commands(self.sections["Commands"])

    @property
    def all_needs(self) -> frozenset[Need]:
        """What it declares, and the metadata where it rests on that alone."""
        of_records = self.rests_on.way in ("records", "owners")
        return self.needs | {Need.METADATA} if of_records else self.needs

    @property
    def _manual(self) -> str:
        return inspect.getdoc(self.find) or ""


@dataclass(frozen=True)
class TableCheck(Check):
    """A question that Spark's tables answer.

    ``asks`` is the field of `Tables`, or the part of them (`auditor.tables.parts`), without whose rows it
    finds nothing, if there is one: where that is known to have none, the check is left out.
    """

    asks: str | None = None

    def __call__(self, tables: Tables) -> DataFrame:
        """Ask it: one row per finding, in the columns and types of FINDING_COLUMNS."""
        rows: DataFrame = self.find(tables)
        return rows.selectExpr(*self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """FINDING_COLUMNS in SQL, of what ``find`` gives: its own urgency and severity where it says none."""
        milder = ", ".join(f"'{severity}'" for severity in Severity if not severity.at_least(self.severity))
        own = f"'{self.urgency}'"
        if milder:
            own = f"IF(severity IN ({milder}), '{Urgency.REST}', {own})"
        expressions = {
            "urgency": f"coalesce(urgency, {own}) AS urgency",
            "severity": f"coalesce(severity, '{self.severity}') AS severity",
        }
        return tuple(expressions.get(name, name) for name in FINDING_COLUMNS)


@dataclass(frozen=True)
class RosterCheck(Check):
    """A question that what is known of the bookies answers: rows that the driver holds."""

    def __call__(self, roster: Roster) -> list[dict[str, Any]]:
        """Ask it: one row per finding, in the columns of FINDING_COLUMNS."""
        return [{**row, **self._said(row["severity"])} for row in self.find(roster)]

    def _said(self, severity: str | None) -> dict[str, str]:
        row_severity = Severity(severity or self.severity)
        urgency = self.urgency if row_severity.at_least(self.severity) else Urgency.REST
        return {"urgency": str(urgency), "severity": str(row_severity)}


def check(
    severity: Severity,
    *,
    rests_on: Basis,
    needs: Iterable[Need] | None = None,
    asks: str | None = None,
    urgency: Urgency = Urgency.REST,
    do_now: str | None = None,
    aliases: tuple[str, ...] = (),
    action: ActionKind | None = None,
    holds: tuple[HoldRule, ...] = (),
    settings: tuple[str, ...] = (),
) -> Callable[[Find], TableCheck]:
    """Turn a documented function into a `TableCheck`.

    >>> @check(Severity.NOTE, rests_on=Basis.DISKS)
    ... def untold(tables): "Something is odd."
    Traceback (most recent call last):
    TypeError: untold does not document: What it finds, Why it matters, How sure, What to do, Commands, Limits
    """
    required_needs = frozenset(rests_on.needs if needs is None else needs)
    return lambda find: TableCheck(
        severity, rests_on, find, required_needs, urgency, do_now, aliases, action, holds, settings, asks
    )


def roster_check(
    severity: Severity,
    *,
    rests_on: Basis,
    needs: Iterable[Need] | None = None,
    urgency: Urgency = Urgency.REST,
    do_now: str | None = None,
    aliases: tuple[str, ...] = (),
    action: ActionKind | None = None,
    holds: tuple[HoldRule, ...] = (),
    settings: tuple[str, ...] = (),
) -> Callable[[FindBookies], RosterCheck]:
    """Turn a documented function into a `RosterCheck`; its rows are those of `bookie_finding`."""
    required_needs = frozenset(rests_on.needs if needs is None else needs)
    return lambda find: RosterCheck(
        severity, rests_on, find, required_needs, urgency, do_now, aliases, action, holds, settings
    )
