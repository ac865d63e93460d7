"""Suppressions: findings that somebody has decided to live with, why, and until when.

A TOML file; every entry has a ``reason`` and a last day::

    [[suppress]]                      # what all keys of an entry name
    id = "orphan-ledger"              # a check; * and ? stand for any letters
    bookie_id = "bk-old-*"
    reason = "bk-old-1 to -3 are being emptied, OPS-1204"
    until = 2026-12-31

    [[baseline]]                      # what an earlier run found, and is not worse now
    run = "runs/20261101T050000Z"     # from the directory of this file
    reason = "known since the move"
    until = 2026-11-30

A suppressed finding stays in the findings, the counts and the verdict: the truth does not change. It does not
count for the exit code, and reports show it apart. After its last day (UTC) an entry suppresses nothing, and
is named.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from auditor.checks import BY_ID
from auditor.errors import UsageError
from auditor.findings.changes import still_found
from auditor.findings.table import ranks
from auditor.model.finding import glob_to_regex
from auditor.model.states import FOUND
from auditor.sources.regular_file import read_toml
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.changes import CHANGES

MOST = 1_000
"""Entries of one file: each is a question asked of every finding."""


@dataclass(frozen=True, slots=True)
class Suppress:
    """One entry: either ``names``, column by column, or ``baseline``, the path or URI of an earlier run."""

    reason: str
    until: date
    names: Mapping[str, str | int]
    baseline: str | None = None

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.until < today


def read_suppressions(path: str | Path) -> tuple[Suppress, ...]:
    """The entries of a suppressions file: those of ``[[suppress]]``, then those of ``[[baseline]]``.

    Raises:
        UsageError: no such file, not TOML, or an entry that is invalid; the message names file, entry
            and key.
    """
    values = read_toml(path)
    for key in values:
        if key not in _KEYS:
            raise UsageError(f"{path}: {key}: no such table; there are [[suppress]] and [[baseline]]")
    entries = []
    for kind in _KEYS:
        tables = values.get(kind, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise UsageError(f"{path}: {kind}: write [[{kind}]], once for each entry")
        for number, table in enumerate(tables, 1):
            entries.append(_entry(f"{path}: {kind} entry {number}", kind, table, Path(path).parent))
    if len(entries) > MOST:
        raise UsageError(
            f"{path}: {len(entries):,} entries; the most is {MOST:,}: use * and ?, or a baseline"
        )
    return tuple(entries)


def apply_suppressions(
    changes: DataFrame, entries: Sequence[Suppress], baselines: Mapping[str, DataFrame], today: date
) -> DataFrame:
    """``changes`` in all columns of the table: with the number and the reason of the first entry that holds.

    ``baselines`` are the tables changes of the runs that entries which have not expired name, by their path.
    """
    number = F.lit(None).cast("int")
    rows = changes
    for place, entry in reversed(list(enumerate(entries, 1))):
        if entry.expired(today):
            continue
        if entry.baseline is None:
            holds = _all_match(entry.names)
        else:
            rows, holds = _not_worse(rows, baselines[entry.baseline], f"baseline_{place}")
        number = F.when(holds, F.lit(place)).otherwise(number)
    reasons = [F.lit(part) for place, entry in enumerate(entries, 1) for part in (place, entry.reason)]
    found = F.when(F.col("change").isin(*FOUND), number).otherwise(F.lit(None)).cast("int")
    reason = F.create_map(*reasons)[F.col("suppression")] if reasons else F.lit(None).cast("string")
    return rows.withColumn("suppression", found).withColumn("suppressed", reason).select(*CHANGES.names)


def _entry(where: str, kind: str, table: dict[str, Any], home: Path) -> Suppress:
    known = _KEYS[kind]
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"{where}: {key}: no such key; there are {', '.join(known)}")
        if (wrong := known[key](value)) is not None:
            raise UsageError(f"{where}: {key}: {value!r} is {wrong}")
    for key in ("reason", "until", *(("run",) if kind == "baseline" else ())):
        if key not in table:
            raise UsageError(f"{where}: {key}: missing")
    names = {key: value for key, value in table.items() if key not in ("reason", "until", "run")}
    if "ledger_id" in names:
        names.setdefault("scope_id", 0)  # a ledger without a scope is one of scope 0, as in every option
    if kind == "suppress" and not names:
        raise UsageError(f"{where}: it would suppress everything; name one of {', '.join(_NAMES)}")
    run = table.get("run")
    baseline = None if run is None else run if "://" in run else str(home / run)
    return Suppress(table["reason"], table["until"], names, baseline)


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "not a string, or empty"


def _day(value: Any) -> str | None:
    right = isinstance(value, date) and not isinstance(value, datetime)
    return None if right else "not a day: write it without quotes, as 2026-12-31"


def _long(value: Any) -> str | None:
    right = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return None if right else "not a whole number of 64 bits"


def _check(value: Any) -> str | None:
    if not isinstance(value, str):
        return "not a string"
    return None if any(_matches(value, id) for id in BY_ID) else "not a check, and matches none"


def _fingerprint(value: Any) -> str | None:
    right = isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value)
    return None if right else "not a fingerprint: 16 digits of 0-9 and a-f"


_NAMES: dict[str, Callable[[Any], str | None]] = {
    "id": _check,
    "scope_id": _long,
    "ledger_id": _long,
    "bookie_id": _text,
    "fingerprint": _fingerprint,
}
_ALWAYS: dict[str, Callable[[Any], str | None]] = {"reason": _text, "until": _day}
_KEYS: dict[str, dict[str, Callable[[Any], str | None]]] = {
    "suppress": {**_NAMES, **_ALWAYS},
    "baseline": {"run": _text, **_ALWAYS},
}


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(glob_to_regex(pattern), name, re.DOTALL) is not None


def _all_match(names: Mapping[str, str | int]) -> Column:
    """Whether all that an entry names is so."""
    holds = F.lit(True)
    for column, wanted in names.items():
        if column == "id":
            this = F.col("id").isin(*sorted({BY_ID[id].id for id in BY_ID if _matches(str(wanted), id)}))
        elif column == "bookie_id":
            this = F.col("bookie_id").rlike(rf"^(?s:{glob_to_regex(str(wanted))})\z")
        else:
            this = F.col(column) == F.lit(wanted)
        holds = holds & F.coalesce(this, F.lit(False))
    return holds


def _not_worse(rows: DataFrame, baseline: DataFrame, column: str) -> tuple[DataFrame, Column]:
    """``rows`` joined with a baseline, and whether that run found the trouble as bad as it is, or worse."""

    # How mild it is, to be compared as a whole. Of several that one run found the mildest was lived with.
    def mildness(prefix: str) -> Column:
        rank, missing = ranks(f"{prefix}severity"), F.col(f"{prefix}missing")
        return F.struct(rank.alias("rank"), (-missing).alias("present"))

    known = still_found(baseline).groupBy("trouble").agg(F.max(mildness("known_")).alias(column))
    return rows.join(known, "trouble", "left"), F.coalesce(mildness("") >= F.col(column), F.lit(False))
