"""Suppressions: findings that somebody has accepted, with the reason and the last day.

A suppressions file is TOML. Every entry has a ``reason`` and a last day (``until``)::

    [[suppress]]                      # suppresses the findings that match all its keys
    id = "orphan-ledger"              # a check; * stands for any letters, ? for one
    bookie_id = "bk-old-*"
    reason = "bk-old-1 to -3 are being emptied, OPS-1204"
    until = 2026-12-31

A suppressed finding stays in the findings, the counts and the verdict, because it is still true. It does
not count for the exit code, and reports show it separately. After its last day (UTC) an entry suppresses
nothing, and reports name it.

Some findings are about data that is lost or about to be deleted (`DATA_LOSS`). An entry accepts such a
finding only by its fingerprint. Such an entry may last for a week at most::

    [[suppress]]
    fingerprint = "a2b8aa759ab37bdf"
    missing = "3be5380e0dd667e5"      # the digest of its missing entries, if any: further ones are a new loss
    reason = "written by a load test; nobody reads it"
    until = 2026-12-03

If an entry names such a finding in any other way, the entry does not apply to it. `find_refusals` counts
these cases, and `refusal_sentences` says why.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from auditor.checks import CHECK_BY_ID
from auditor.checks.finding_rows import MISSING_DIGEST_SQL
from auditor.errors import UsageError
from auditor.findings.changes import rows_of_own_run
from auditor.findings.table import severity_ranks
from auditor.model.acceptance import DATA_LOSS, last_acceptance_day
from auditor.model.amounts import plural
from auditor.model.finding import glob_to_regex
from auditor.model.states import FOUND_NOW
from auditor.sources.regular_file import read_toml
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.changes import CHANGES

MAX_ENTRIES = 1_000
"""Largest number of entries in one file. Every finding is compared with each entry."""


@dataclass(frozen=True, slots=True)
class SuppressionEntry:
    """One entry of a suppressions file. It selects findings by ``column_values`` or by ``baseline``.

    ``column_values`` maps columns of a finding to the values that these columns must have. ``baseline`` is
    the path or URI of an earlier run. The entry then selects the findings of that run. ``missing_digest`` is
    a digest of ledger entries: the entry applies only to a finding with exactly these missing entries. It is
    None if the file states no digest.
    """

    reason: str
    until: date
    column_values: Mapping[str, str | int]
    baseline: str | None = None
    missing_digest: str | None = None

    def is_expired(self, today: date) -> bool:
        """Return whether the entry's last day is over."""
        return self.until < today


def read_suppressions(path: str | Path) -> tuple[SuppressionEntry, ...]:
    """Read the entries of a suppressions file: first ``[[suppress]]``, then ``[[baseline]]``.

    Raises:
        UsageError: The file does not exist, is not TOML, or has an invalid entry. The message names the
            file, the entry and the key.
    """
    values = read_toml(path)
    for key in values:
        if key not in _KEYS_BY_KIND:
            raise UsageError(f"{path}: {key}: no such table; valid tables: [[suppress]] and [[baseline]]")
    entries = []
    for kind in _KEYS_BY_KIND:
        tables = values.get(kind, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise UsageError(f"{path}: {kind}: not a list; write [[{kind}]] before each entry")
        for table_number, table in enumerate(tables, 1):
            entries.append(
                _parse_entry(f"{path}: {kind} entry {table_number}", kind, table, Path(path).parent)
            )
    if len(entries) > MAX_ENTRIES:
        raise UsageError(
            f"{path}: {len(entries):,} entries, but at most {MAX_ENTRIES:,} are allowed; use the "
            "wildcards * and ?, or a baseline"
        )
    return tuple(entries)


def apply_suppressions(
    changes: DataFrame,
    entries: Sequence[SuppressionEntry],
    baselines: Mapping[str, DataFrame],
    digests: Mapping[str, str | None],
    today: date,
) -> DataFrame:
    """Add the number and the reason of the first entry that accepts each finding; null if none does.

    ``changes`` and the result have the columns of the table ``changes``. ``baselines`` maps the path of each
    run that an unexpired entry names to that run's table ``changes``. ``digests`` maps a fingerprint to the
    digest of the finding's missing entries (`digests_by_fingerprint`).
    """
    accepting_entry = F.lit(None).cast("int")
    rows, match_by_entry = _match_entries(changes, entries, baselines, today)
    for entry_number, entry_match in sorted(match_by_entry.items(), reverse=True):
        is_accepted = entry_match & _may_accept(entries[entry_number - 1], digests, today)
        accepting_entry = F.when(is_accepted, F.lit(entry_number)).otherwise(accepting_entry)
    reasons = [
        F.lit(reason_part)
        for entry_number, entry in enumerate(entries, 1)
        for reason_part in (entry_number, entry.reason)
    ]
    suppression = F.when(F.col("change").isin(*FOUND_NOW), accepting_entry).otherwise(F.lit(None)).cast("int")
    reason = F.create_map(*reasons)[F.col("suppression")] if reasons else F.lit(None).cast("string")
    return rows.withColumn("suppression", suppression).withColumn("suppressed", reason).select(*CHANGES.names)


def digests_by_fingerprint(findings: DataFrame, entries: Sequence[SuppressionEntry]) -> DataFrame | None:
    """Return the digest of missing ledger entries, for each finding that a suppression names by fingerprint.

    The rows have fingerprint and digest. The result is None if no suppression names a fingerprint. A digest
    is null if the finding has no missing entries.
    """
    named_fingerprints = sorted(
        {str(entry.column_values["fingerprint"]) for entry in entries if "fingerprint" in entry.column_values}
    )
    if not named_fingerprints:
        return None
    rows = findings.where(F.col("fingerprint").isin(*named_fingerprints))
    return rows.select("fingerprint", F.expr(MISSING_DIGEST_SQL).alias("digest"))


def find_refusals(
    changes: DataFrame,
    entries: Sequence[SuppressionEntry],
    baselines: Mapping[str, DataFrame],
    digests: Mapping[str, str | None],
    today: date,
) -> DataFrame:
    """Count, for each entry, the findings of `DATA_LOSS` that it names but is not allowed to accept.

    Findings that another entry accepts are not counted. Each row has the entry's number (``place``, from 1)
    and the count. ``changes`` is the result of `apply_suppressions`. A finding counts once: for the entry
    that names it by fingerprint, else for the first entry that names it.
    """
    unaccepted_losses = changes.where(
        F.col("suppression").isNull() & F.col("urgency").isin(*DATA_LOSS) & F.col("change").isin(*FOUND_NOW)
    )
    rows, match_by_entry = _match_entries(unaccepted_losses, entries, baselines, today)
    accepting_entry = F.lit(None).cast("int")
    for entry_number in sorted(
        match_by_entry,
        key=lambda entry_number: ("fingerprint" not in entries[entry_number - 1].column_values, entry_number),
        reverse=True,
    ):
        accepting_entry = F.when(match_by_entry[entry_number], F.lit(entry_number)).otherwise(accepting_entry)
    return rows.groupBy(accepting_entry.alias("place")).count().where("place is not null").orderBy("place")


def refusal_sentences(
    entries: Sequence[SuppressionEntry],
    refused_counts: Mapping[int, int],
    digests: Mapping[str, str | None],
    today: date,
) -> list[str]:
    """Return, for each entry that could not accept findings of `DATA_LOSS`, a sentence that says why.

    The sentence starts with the number of these findings. ``refused_counts`` has this number by the entry's
    place, from 1.

    >>> entry = SuppressionEntry("known", date(2026, 12, 31), {"id": "entry-*"})
    >>> refusal_sentences([entry], {1: 2}, {}, date(2026, 12, 1))
    ['entry 1 (known): 2 findings; a finding of data loss can be accepted only by its fingerprint']
    """
    return [
        f"entry {entry_number} ({entries[entry_number - 1].reason}): {plural(refused_count, 'finding')}; "
        f"{_refusal_reason(entries[entry_number - 1], digests, today)}"
        for entry_number, refused_count in refused_counts.items()
    ]


def _refusal_reason(entry: SuppressionEntry, digests: Mapping[str, str | None], today: date) -> str:
    if "fingerprint" not in entry.column_values:
        return "a finding of data loss can be accepted only by its fingerprint"
    if entry.until > last_acceptance_day(today):
        return f"until {entry.until} is too late: the latest day allowed is {last_acceptance_day(today)}"
    digest = digests.get(str(entry.column_values["fingerprint"]))
    if entry.missing_digest is None:
        return f'the key "missing" is absent; for the entries missing now, its value is "{digest}"'
    return f'{entry.missing_digest} is not the digest of the entries missing now, which is "{digest}"'


def _match_entries(
    changes: DataFrame, entries: Sequence[SuppressionEntry], baselines: Mapping[str, DataFrame], today: date
) -> tuple[DataFrame, dict[int, Column]]:
    """Return ``changes`` joined with the baselines, and a condition for each entry, by the entry's number.

    A baseline has the findings of an earlier run. The condition tells whether the entry names a row. Expired
    entries have no condition.
    """
    rows, match_by_entry = changes, {}
    for entry_number, entry in enumerate(entries, 1):
        if entry.is_expired(today):
            continue
        if entry.baseline is None:
            match_by_entry[entry_number] = _all_values_match(entry.column_values)
        else:
            rows, match_by_entry[entry_number] = _match_not_worse(
                rows, baselines[entry.baseline], f"baseline_{entry_number}"
            )
    return rows, match_by_entry


def _may_accept(entry: SuppressionEntry, digests: Mapping[str, str | None], today: date) -> Column:
    """Return whether an entry may accept a row that it names."""
    is_loss = F.col("urgency").isin(*DATA_LOSS)
    if "fingerprint" not in entry.column_values:
        return ~is_loss
    digest = digests.get(str(entry.column_values["fingerprint"]))
    if entry.missing_digest not in (None, digest):
        return F.lit(False)
    accepts_loss = entry.until <= last_acceptance_day(today) and entry.missing_digest == digest
    return F.lit(True) if accepts_loss else ~is_loss


def _parse_entry(
    entry_location: str, kind: str, table: dict[str, Any], base_directory: Path
) -> SuppressionEntry:
    key_rules = _KEYS_BY_KIND[kind]
    for key, value in table.items():
        if key not in key_rules:
            raise UsageError(f"{entry_location}: {key}: no such key; valid keys: {', '.join(key_rules)}")
        if (fault_text := key_rules[key](value)) is not None:
            raise UsageError(f"{entry_location}: {key}: {value!r} is {fault_text}")
    for key in ("reason", "until", *(("run",) if kind == "baseline" else ())):
        if key not in table:
            raise UsageError(f"{entry_location}: {key}: missing")
    column_values = {
        key: value for key, value in table.items() if key not in ("reason", "until", "run", "missing")
    }
    if "missing" in table and "fingerprint" not in column_values:
        raise UsageError(
            f"{entry_location}: missing: valid only for a single finding; add the fingerprint of the finding"
        )
    if "ledger_id" in column_values:
        column_values.setdefault(
            "scope_id", 0
        )  # a ledger id without a scope is in scope 0, as in every option
    if kind == "suppress" and not column_values:
        raise UsageError(
            f"{entry_location}: the entry would suppress every finding; add one of {', '.join(_COLUMN_KEYS)}"
        )
    run_path = table.get("run")
    baseline = None if run_path is None else run_path if "://" in run_path else str(base_directory / run_path)
    return SuppressionEntry(table["reason"], table["until"], column_values, baseline, table.get("missing"))


def _check_text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "empty, or not a string"


def _check_day(value: Any) -> str | None:
    is_valid = isinstance(value, date) and not isinstance(value, datetime)
    return None if is_valid else "not a date; write it without quotes, such as 2026-12-31"


def _check_integer(value: Any) -> str | None:
    is_valid = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return None if is_valid else "not a 64-bit whole number"


def _check_check_id(value: Any) -> str | None:
    if not isinstance(value, str):
        return "not a string"
    return (
        None
        if any(_matches_pattern(value, id) for id in CHECK_BY_ID)
        else "neither the id of a check nor a pattern that matches one"
    )


def _check_fingerprint(value: Any) -> str | None:
    return None if _is_short_digest(value) else "not a fingerprint, which has 16 digits of 0-9 and a-f"


def _check_missing_digest(value: Any) -> str | None:
    return (
        None
        if _is_short_digest(value)
        else "not a digest of missing entries, which has 16 digits of 0-9 and a-f"
    )


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


def _matches_pattern(pattern: str, name: str) -> bool:
    return re.fullmatch(glob_to_regex(pattern), name, re.DOTALL) is not None


def _all_values_match(column_values: Mapping[str, str | int]) -> Column:
    """Return whether a row has all the values that an entry names."""
    is_match = F.lit(True)
    for column, expected_value in column_values.items():
        if column == "id":
            is_column_match = F.col("id").isin(
                *sorted(
                    {CHECK_BY_ID[id].id for id in CHECK_BY_ID if _matches_pattern(str(expected_value), id)}
                )
            )
        elif column == "bookie_id":
            is_column_match = F.col("bookie_id").rlike(rf"^(?s:{glob_to_regex(str(expected_value))})\z")
        else:
            is_column_match = F.col(column) == F.lit(expected_value)
        is_match = is_match & F.coalesce(is_column_match, F.lit(False))
    return is_match


def _match_not_worse(rows: DataFrame, baseline: DataFrame, column: str) -> tuple[DataFrame, Column]:
    """Join ``rows`` with a baseline (the findings of an earlier run).

    Also return the condition that a row is no worse than in the baseline. ``column`` is the name of the
    joined column.
    """

    # Compared as a whole: milder is greater. Of several findings of one trouble, the mildest counts.
    def severity_and_presence(column_prefix: str) -> Column:
        severity_rank, missing = severity_ranks(f"{column_prefix}severity"), F.col(f"{column_prefix}missing")
        return F.struct(severity_rank.alias("rank"), (-missing).alias("present"))

    baseline_rows = (
        rows_of_own_run(baseline).groupBy("trouble").agg(F.max(severity_and_presence("known_")).alias(column))
    )
    return rows.join(baseline_rows, "trouble", "left"), F.coalesce(
        severity_and_presence("") >= F.col(column), F.lit(False)
    )
