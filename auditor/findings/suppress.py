"""Suppressions: findings that somebody has accepted, with the reason and the last day.

A suppressions file is TOML; every entry has a ``reason`` and a last day::

    [[suppress]]                      # suppresses the findings that match all its keys
    id = "orphan-ledger"              # a check; * stands for any letters, ? for one
    bookie_id = "bk-old-*"
    reason = "bk-old-1 to -3 are being emptied, OPS-1204"
    until = 2026-12-31

A suppressed finding stays in the findings, the counts and the verdict: it is still true. It does not count
for the exit code, and reports show it separately. After its last day (UTC) an entry suppresses nothing, and
reports name it.

A finding of data lost or about to be deleted (`DATA_LOSS`) is accepted one by one, for a week at most::

    [[suppress]]
    fingerprint = "a2b8aa759ab37bdf"
    missing = "3be5380e0dd667e5"      # the digest of its missing entries, if any: further ones are a new loss
    reason = "written by a load test; nobody reads it"
    until = 2026-12-03

An entry that names such a finding in any other way does not apply to it, and `find_refusals` says why.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from auditor.checks import BY_ID
from auditor.checks.finding_rows import MISSING_DIGEST_SQL
from auditor.errors import UsageError
from auditor.findings.changes import still_found
from auditor.findings.table import ranks
from auditor.model.acceptance import DATA_LOSS, latest_day
from auditor.model.amounts import plural
from auditor.model.finding import glob_to_regex
from auditor.model.states import FOUND
from auditor.sources.regular_file import read_toml
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.changes import CHANGES

MAX_ENTRIES = 1_000
"""Largest number of entries in one file; each is a condition that every finding is compared with."""


@dataclass(frozen=True, slots=True)
class Suppress:
    """One entry of a suppressions file: it names findings by ``names`` or by ``baseline``.

    ``names`` has the expected value of each column. ``baseline`` is the path or URI of an earlier run: its
    findings are named. ``missing`` is the digest of the missing entries that the finding must have; None if
    any entries may be missing.
    """

    reason: str
    until: date
    names: Mapping[str, str | int]
    baseline: str | None = None
    missing: str | None = None

    def expired(self, today: date) -> bool:
        """Return whether the entry's last day is over."""
        return self.until < today


def read_suppressions(path: str | Path) -> tuple[Suppress, ...]:
    """Read the entries of a suppressions file: those of ``[[suppress]]``, then those of ``[[baseline]]``.

    Raises:
        UsageError: The file does not exist, is not TOML, or has an invalid entry. The message names file,
            entry and key.
    """
    values = read_toml(path)
    for key in values:
        if key not in _KEYS_BY_KIND:
            raise UsageError(f"{path}: {key}: no such table; there are [[suppress]] and [[baseline]]")
    entries = []
    for kind in _KEYS_BY_KIND:
        tables = values.get(kind, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise UsageError(f"{path}: {kind}: write [[{kind}]], once for each entry")
        for number, table in enumerate(tables, 1):
            entries.append(_parse_entry(f"{path}: {kind} entry {number}", kind, table, Path(path).parent))
    if len(entries) > MAX_ENTRIES:
        raise UsageError(
            f"{path}: {len(entries):,} entries; the most is {MAX_ENTRIES:,}: use * and ?, or a baseline"
        )
    return tuple(entries)


def apply_suppressions(
    changes: DataFrame,
    entries: Sequence[Suppress],
    baselines: Mapping[str, DataFrame],
    digests: Mapping[str, str | None],
    today: date,
) -> DataFrame:
    """Add number and reason of the first entry that accepts each finding; null if none does.

    ``changes`` and the result have the columns of the table changes. ``baselines`` are the tables changes of
    the runs that unexpired entries name, by path. ``digests`` are those of `digests_by_fingerprint`.
    """
    number = F.lit(None).cast("int")
    rows, matches = _match_entries(changes, entries, baselines, today)
    for position, match in sorted(matches.items(), reverse=True):
        is_accepted = match & _may_accept(entries[position - 1], digests, today)
        number = F.when(is_accepted, F.lit(position)).otherwise(number)
    reasons = [F.lit(part) for place, entry in enumerate(entries, 1) for part in (place, entry.reason)]
    suppression = F.when(F.col("change").isin(*FOUND), number).otherwise(F.lit(None)).cast("int")
    reason = F.create_map(*reasons)[F.col("suppression")] if reasons else F.lit(None).cast("string")
    return rows.withColumn("suppression", suppression).withColumn("suppressed", reason).select(*CHANGES.names)


def digests_by_fingerprint(findings: DataFrame, entries: Sequence[Suppress]) -> DataFrame | None:
    """Return the digest of the missing entries of each finding that a suppression names by its fingerprint.

    The rows have fingerprint and digest, at most one for each of ``entries``; None if none of them names a
    fingerprint. The digest is null if a finding has no missing entries.
    """
    named_fingerprints = sorted(
        {str(entry.names["fingerprint"]) for entry in entries if "fingerprint" in entry.names}
    )
    if not named_fingerprints:
        return None
    rows = findings.where(F.col("fingerprint").isin(*named_fingerprints))
    return rows.select("fingerprint", F.expr(MISSING_DIGEST_SQL).alias("digest"))


def find_refusals(
    changes: DataFrame,
    entries: Sequence[Suppress],
    baselines: Mapping[str, DataFrame],
    digests: Mapping[str, str | None],
    today: date,
) -> DataFrame:
    """Count for each entry the unaccepted findings of `DATA_LOSS` that it names but must not accept.

    Returns rows with the entry's place and the count. ``changes`` is the result of `apply_suppressions`. A
    finding counts once: for the entry that names it by fingerprint, else for the first entry that names it.
    """
    unaccepted_losses = changes.where(
        F.col("suppression").isNull() & F.col("urgency").isin(*DATA_LOSS) & F.col("change").isin(*FOUND)
    )
    rows, matches = _match_entries(unaccepted_losses, entries, baselines, today)
    number = F.lit(None).cast("int")
    for position in sorted(
        matches, key=lambda place: ("fingerprint" not in entries[place - 1].names, place), reverse=True
    ):
        number = F.when(matches[position], F.lit(position)).otherwise(number)
    return rows.groupBy(number.alias("place")).count().where("place is not null").orderBy("place")


def refusal_sentences(
    entries: Sequence[Suppress],
    refused_counts: Mapping[int, int],
    digests: Mapping[str, str | None],
    today: date,
) -> list[str]:
    """Return a sentence for each entry that could not accept findings of `DATA_LOSS`: their number, and why.

    ``refused_counts`` has the number of these findings by the entry's place, from 1.

    >>> entry = Suppress("known", date(2026, 12, 31), {"id": "entry-*"})
    >>> refusal_sentences([entry], {1: 2}, {}, date(2026, 12, 1))
    ['entry 1 (known): 2 findings; a finding of data loss is accepted only by its fingerprint']
    """
    return [
        f"entry {position} ({entries[position - 1].reason}): {plural(count, 'finding')}; "
        f"{_refusal_reason(entries[position - 1], digests, today)}"
        for position, count in refused_counts.items()
    ]


def _refusal_reason(entry: Suppress, digests: Mapping[str, str | None], today: date) -> str:
    if "fingerprint" not in entry.names:
        return "a finding of data loss is accepted only by its fingerprint"
    if entry.until > latest_day(today):
        return f"until {entry.until} is too late: the latest day allowed is {latest_day(today)}"
    digest = digests.get(str(entry.names["fingerprint"]))
    if entry.missing is None:
        return f'the key "missing" is absent; for the entries that are missing now its value is "{digest}"'
    return (
        f"the missing entries are not those of digest {entry.missing}; the digest of the "
        f'entries that are missing now is "{digest}"'
    )


def _match_entries(
    changes: DataFrame, entries: Sequence[Suppress], baselines: Mapping[str, DataFrame], today: date
) -> tuple[DataFrame, dict[int, Column]]:
    """Return ``changes`` joined with the baselines, and by entry number whether the entry names a row."""
    rows, matches = changes, {}
    for position, entry in enumerate(entries, 1):
        if entry.expired(today):
            continue
        if entry.baseline is None:
            matches[position] = _all_names_match(entry.names)
        else:
            rows, matches[position] = _match_not_worse(
                rows, baselines[entry.baseline], f"baseline_{position}"
            )
    return rows, matches


def _may_accept(entry: Suppress, digests: Mapping[str, str | None], today: date) -> Column:
    """Return whether an entry may accept a row that it names."""
    is_loss = F.col("urgency").isin(*DATA_LOSS)
    if "fingerprint" not in entry.names:
        return ~is_loss
    digest = digests.get(str(entry.names["fingerprint"]))
    if entry.missing not in (None, digest):
        return F.lit(False)
    accepts_loss = entry.until <= latest_day(today) and entry.missing == digest
    return F.lit(True) if accepts_loss else ~is_loss


def _parse_entry(location: str, kind: str, table: dict[str, Any], base_directory: Path) -> Suppress:
    rules = _KEYS_BY_KIND[kind]
    for key, value in table.items():
        if key not in rules:
            raise UsageError(f"{location}: {key}: no such key; there are {', '.join(rules)}")
        if (fault_text := rules[key](value)) is not None:
            raise UsageError(f"{location}: {key}: {value!r} is {fault_text}")
    for key in ("reason", "until", *(("run",) if kind == "baseline" else ())):
        if key not in table:
            raise UsageError(f"{location}: {key}: missing")
    names = {key: value for key, value in table.items() if key not in ("reason", "until", "run", "missing")}
    if "missing" in table and "fingerprint" not in names:
        raise UsageError(
            f"{location}: missing: valid only for one finding; name the finding by its fingerprint"
        )
    if "ledger_id" in names:
        names.setdefault("scope_id", 0)  # a ledger without a scope is one of scope 0, as in every option
    if kind == "suppress" and not names:
        raise UsageError(
            f"{location}: the entry would suppress every finding; add one of {', '.join(_COLUMN_KEYS)}"
        )
    run = table.get("run")
    baseline = None if run is None else run if "://" in run else str(base_directory / run)
    return Suppress(table["reason"], table["until"], names, baseline, table.get("missing"))


def _check_text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "not a string, or empty"


def _check_day(value: Any) -> str | None:
    is_valid = isinstance(value, date) and not isinstance(value, datetime)
    return None if is_valid else "not a day: write it without quotes, as 2026-12-31"


def _check_integer(value: Any) -> str | None:
    is_valid = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return None if is_valid else "not a whole number of 64 bits"


def _check_check_id(value: Any) -> str | None:
    if not isinstance(value, str):
        return "not a string"
    return None if any(_matches(value, id) for id in BY_ID) else "not the id of a check, and matches none"


def _check_fingerprint(value: Any) -> str | None:
    return None if _is_short_digest(value) else "not a fingerprint: 16 digits of 0-9 and a-f"


def _check_missing_digest(value: Any) -> str | None:
    return None if _is_short_digest(value) else "not a digest of missing entries: 16 digits of 0-9 and a-f"


def _is_short_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value) is not None


_COLUMN_KEYS: dict[str, Callable[[Any], str | None]] = {
    "id": _check_check_id,
    "scope_id": _check_integer,
    "ledger_id": _check_integer,
    "bookie_id": _check_text,
    "fingerprint": _check_fingerprint,
}
_REQUIRED_KEYS: dict[str, Callable[[Any], str | None]] = {"reason": _check_text, "until": _check_day}
_KEYS_BY_KIND: dict[str, dict[str, Callable[[Any], str | None]]] = {
    "suppress": {**_COLUMN_KEYS, "missing": _check_missing_digest, **_REQUIRED_KEYS},
    "baseline": {"run": _check_text, **_REQUIRED_KEYS},
}


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(glob_to_regex(pattern), name, re.DOTALL) is not None


def _all_names_match(names: Mapping[str, str | int]) -> Column:
    """Return whether a row has all the values that an entry names."""
    is_match = F.lit(True)
    for column, expected in names.items():
        if column == "id":
            is_column_match = F.col("id").isin(
                *sorted({BY_ID[id].id for id in BY_ID if _matches(str(expected), id)})
            )
        elif column == "bookie_id":
            is_column_match = F.col("bookie_id").rlike(rf"^(?s:{glob_to_regex(str(expected))})\z")
        else:
            is_column_match = F.col(column) == F.lit(expected)
        is_match = is_match & F.coalesce(is_column_match, F.lit(False))
    return is_match


def _match_not_worse(rows: DataFrame, baseline: DataFrame, column: str) -> tuple[DataFrame, Column]:
    """Join ``rows`` with a baseline; return also whether the baseline found the trouble, as bad or worse."""

    # How mild it is, to be compared as a whole. Of several that one run found the mildest was lived with.
    def mildness(prefix: str) -> Column:
        rank, missing = ranks(f"{prefix}severity"), F.col(f"{prefix}missing")
        return F.struct(rank.alias("rank"), (-missing).alias("present"))

    baseline_rows = still_found(baseline).groupBy("trouble").agg(F.max(mildness("known_")).alias(column))
    return rows.join(baseline_rows, "trouble", "left"), F.coalesce(
        mildness("") >= F.col(column), F.lit(False)
    )
