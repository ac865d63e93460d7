"""What a check is: one documented question, asked of the tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from auditor.checks import manual
from auditor.checks.manual import SECTIONS, Command
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables

    Find = Callable[[Tables], DataFrame]

Group = Literal["replication", "storage", "identity", "metadata"]
GROUPS: tuple[str, ...] = get_args(Group)
LEDGER = ("scope_id", "ledger_id")
"""What names a ledger; ledgers of two scopes never meet."""

# Column and Spark type, in order. A check leaves severity null where its own holds.
FINDING_COLUMNS = {
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


@dataclass(frozen=True)
class Check:
    """A question asked of the tables. Calling it gives one row a finding, in the columns FINDING_COLUMNS.

    Its id, title and manual page are those of its function. A check that leaves a section of its manual
    page out or has it twice, or leaves out the risk of a command, cannot be made: TypeError. ``severity`` is
    what its findings have unless they say otherwise; ``aliases`` are ids that it had before. ``of`` is the
    field of `Tables` without whose rows it finds nothing, if there is one: where that is known to have none,
    nobody needs to ask.
    """

    severity: Severity
    group: Group
    find: Find
    aliases: tuple[str, ...] = ()
    of: str | None = None

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise TypeError(f"{self.id} is of no group: {self.group}")
        if missing := [name for name in SECTIONS if not self.sections.get(name)]:
            raise TypeError(f"{self.id} does not document: {', '.join(missing)}")
        if repeated := manual.repeated(self._manual):
            raise TypeError(f"{self.id} documents more than once: {', '.join(repeated)}")
        try:
            manual.commands(self.sections["Commands"])
        except ValueError as error:
            raise TypeError(f"{self.id}: {error}") from error

    def __call__(self, tables: Tables) -> DataFrame:
        """Ask it: one row a finding, in the columns and types of FINDING_COLUMNS."""
        return self.find(tables).selectExpr(*self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """FINDING_COLUMNS in SQL, of what ``find`` gives: its own severity where a finding has none."""
        own = f"coalesce(severity, '{self.severity}') AS severity"
        return tuple(own if name == "severity" else name for name in FINDING_COLUMNS)

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
    def _manual(self) -> str:
        return inspect.getdoc(self.find) or ""


def check(
    severity: Severity, *, group: Group, aliases: tuple[str, ...] = (), of: str | None = None
) -> Callable[[Find], Check]:
    """Turn a documented function into a `Check`.

    >>> @check(Severity.NOTE, group="storage")
    ... def untold(tables): "Something is odd."
    Traceback (most recent call last):
    TypeError: untold does not document: What it finds, Why it matters, How sure, What to do, Commands, Limits
    """
    return lambda find: Check(severity, group, find, aliases, of)
