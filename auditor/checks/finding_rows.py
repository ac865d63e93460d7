"""Rows of findings from a short query: every column of a finding filled, in words a person reads.

    rows -> finding_rows(rows, ledger_id=..., message=..., evidence={...}) -> FINDING_COLUMNS

What a check does not say is null, no entries, or confirmed. Many rows may be reported as one
(`with_samples`). Nothing here runs a query.
"""

from collections.abc import Mapping, Sequence
from string import Formatter

from auditor.checks.check import FINDING_COLUMNS
from auditor.model.columns import LEDGER, OWNER
from auditor.model.finding import Confidence
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables

# An index full of holes has as many groups as entries; a finding shows so many of what is too much.
GROUPS_SHOWN = 1000
_GROUP_BYTES = 24
MISSING_DIGEST = (
    "CASE WHEN size(missing) > 0 THEN substring(sha2(array_join(transform(array_sort(missing), part -> "
    "concat(part.bookie_id, ' ', translate(hex(part.groups), 'ABCDEF', 'abcdef'))), '|'), 256), 1, 16) END"
)
"""SQL for `auditor.model.acceptance.missing_digest` of a row; `translate`, as `lower` is slow to load."""
WORDLESS = "a value that this message needs is missing: see the evidence"
"""The message of a finding whose check gave it none: a fault of ours, which tests refuse."""


def finding_rows(
    rows: DataFrame,
    *,
    message: Column | str,
    evidence: str | Mapping[str, Column | str],
    ledger_id: str | None = None,
    bookie_id: Column | str | None = None,
    urgency: Column | None = None,
    severity: Column | None = None,
    confidence: Column | Confidence = Confidence.CONFIRMED,
    missing: Column | str | None = None,
    unknown: Column | str | None = None,
) -> DataFrame:
    """One finding per row; ``evidence`` becomes a JSON object with all its keys, null ones included.

    It is SQL as of a SELECT, or by key where a value comes from elsewhere. A ``message`` that is text goes
    through `words`. Rows about a ledger have its ``scope_id`` besides.
    """
    expressions: dict[str, Column | str] = {
        "urgency": urgency if urgency is not None else "null",
        "severity": severity if severity is not None else "null",
        "confidence": f"'{confidence}'" if isinstance(confidence, Confidence) else confidence,
        "ledger_id": ledger_id if ledger_id is not None else "null",
        "bookie_id": bookie_id if bookie_id is not None else "null",
        "missing": missing if missing is not None else "array()",
        "unknown": unknown if unknown is not None else "array()",
        "message": F.ifnull(words(message) if isinstance(message, str) else message, F.lit(WORDLESS)),
        "evidence": _json(evidence),
    }
    if ledger_id is None:
        expressions["scope_id"] = "null"
    else:
        expressions["scope_id"] = f"CASE WHEN {ledger_id} IS NOT NULL THEN scope_id END"
    return rows.select(*(_cast(expressions[name], name, kind) for name, kind in FINDING_COLUMNS.items()))


def suspect_if(condition: Column) -> Column:
    """Confidence of a finding: suspect where the condition holds, else confirmed (also where it is null)."""
    return F.when(condition, Confidence.SUSPECT.value).otherwise(Confidence.CONFIRMED.value)


def words(template: str, **parts: Column | str | int) -> Column:
    """A sentence with values in it; null where one of them is.

    What stands in braces is one of ``parts``, else SQL of the row; ``{ledger}`` is the row's ledger as
    sentences name it. ``{total:ledger|ledgers}`` is a number with its noun, ``{sample:,}`` the texts of an
    array with commas between. What a row may lack is a part of its own, in `if_known`.
    """
    pieces = []
    for text, name, form, _ in Formatter().parse(template):
        if text:
            pieces.append(F.lit(text))
        if name is not None:
            value = F.lit(parts[name]) if name in parts else F.expr(LEDGER_NAME if name == "ledger" else name)
            pieces.append(_with_form(value, form or ""))
    return F.concat(*pieces)


def _with_form(value: Column, form: str) -> Column:
    if form == ",":
        return F.array_join(value, ", ")
    text = value.cast("string")
    if not form:
        return text
    singular, many = form.split("|")
    return F.when(value == 1, f"1 {singular}").otherwise(F.concat(text, F.lit(f" {many}")))


def if_known(part: Column) -> Column:
    """A part of a sentence, left out where it is null."""
    return F.coalesce(part, F.lit(""))


def name_of_ledger(scope_id: str, ledger_id: str) -> str:
    """SQL for a ledger as sentences name it, "7" or "7 of scope 1": of two columns, in SQL."""
    scope = f"CASE WHEN {scope_id} != 0 THEN concat(' of scope ', cast({scope_id} AS string)) ELSE '' END"
    return f"concat(cast({ledger_id} AS string), {scope})"


LEDGER_NAME = name_of_ledger("scope_id", "ledger_id")
"""SQL for a row's ledger as sentences name it."""


def in_words(column: str, meanings: Mapping[str, str]) -> Column:
    """An array of words as what each means; one without a meaning as it is."""
    pairs = [F.lit(text) for pair in meanings.items() for text in map(str, pair)]
    meant = F.create_map(*pairs)
    return F.transform(F.col(column), lambda word: F.coalesce(F.element_at(meant, word), word))


def utc(ms: Column) -> Column:
    """Milliseconds since 1970 as sentences say a time: "2026-11-21 07:00:00 UTC"."""
    timestamp = F.to_utc_timestamp(F.timestamp_millis(ms), F.current_timezone())
    return F.concat(F.date_format(timestamp, "yyyy-MM-dd HH:mm:ss"), F.lit(" UTC"))


def group_list(groups: Column, most: int | None = GROUPS_SHOWN) -> Column:
    """Packed groups, 24 bytes each, as arrays [first_start, last_start, size, period]; the first ``most``."""

    def number(offset: Column, start: int, size: int) -> Column:
        # No value is negative, so that reading the bytes as an unsigned number is right.
        return F.conv(F.hex(F.substring(groups, offset + start, F.lit(size))), 16, 10).cast("bigint")

    size = F.length(groups)
    if most is not None:
        size = F.least(size, F.lit(most * _GROUP_BYTES))
    starts = F.filter(F.sequence(F.lit(0), size, F.lit(_GROUP_BYTES)), lambda offset: offset < size)
    return F.transform(
        starts,
        lambda offset: F.array(
            number(offset, 1, 8),
            number(offset, 9, 8),
            number(offset, 17, 4),
            number(offset, 21, 4),
        ),
    )


def _cast(value: Column | str, name: str, kind: str) -> Column:
    """A column, or one in SQL: that takes one question to Java instead of one per part, of thousands."""
    if isinstance(value, str):
        return F.expr(f"cast({value} AS {kind}) AS {name}")
    return value.cast(kind).alias(name)


def _json(evidence: str | Mapping[str, Column | str]) -> Column | str:
    if isinstance(evidence, str):
        return f"to_json(struct({evidence}), map('ignoreNullFields', 'false'))"
    columns = (
        F.expr(f"{value} AS `{key}`") if isinstance(value, str) else value.alias(key)
        for key, value in evidence.items()
    )
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


SHOWN = 10


def with_samples(
    rows: DataFrame, by: str | Sequence[str], sample_column: str, *aggregates: Column
) -> DataFrame:
    """One row for each value of ``by``: ``total`` rows, the first 10 of ``sample_column`` as ``sample``.

    ``by`` is a column, or several; ``aggregates`` are further columns. Numbering the rows first keeps the
    list of a group of millions short.
    """
    keys = [by] if isinstance(by, str) else list(by)
    number = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {sample_column}) AS _number"
    sample = F.expr(
        f"array_sort(collect_list(CASE WHEN _number <= {SHOWN} THEN {sample_column} END)) AS sample"
    )
    return rows.selectExpr("*", number).groupBy(*keys).agg(F.expr("count(*) AS total"), sample, *aggregates)


def with_ledgers(rows: DataFrame, by: str | Sequence[str], *aggregates: Column) -> DataFrame:
    """`with_samples` of rows about ledgers: the sample names them as sentences do, by scope and id."""
    ledgers = rows.selectExpr("*", f"struct({', '.join(LEDGER)}) AS _ledger")
    names = F.expr(f"transform(sample, each -> {name_of_ledger('each.scope_id', 'each.ledger_id')})")
    return with_samples(ledgers, by, "_ledger", *aggregates).withColumn("sample", names)


def with_attribution(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add the column ``attribution_suspect`` to rows that have a ``bookie_id``.

    Two swapped disks lose nothing. What rests on the data of such a bookie is therefore never confirmed.
    """
    suspect_ids = tables.roster.suspect_ids
    suspect = F.coalesce(F.col("bookie_id").isin(suspect_ids), F.lit(False)) if suspect_ids else F.lit(False)
    return rows.withColumn("attribution_suspect", suspect)


def with_fault(tables: Tables, fault: str) -> DataFrame:
    """The rows of the table ownership that one check finds."""
    return tables.ownership.where(F.col("fault") == fault)


def owner_evidence(*columns: str) -> str:
    """Who the owner is, and some more columns of the table ownership, as a finding's evidence."""
    return ", ".join((*OWNER, *columns))


def owner_name() -> Column:
    """A row's owner: "topic shop/orders/returns", "subscription audit of shop/orders/returns"."""
    topic = F.concat_ws("/", "tenant", "namespace", "topic")
    return (
        F.when(F.col("topic").isNull(), words("the data at {path}"))
        .when(F.col("kind") == "schema", words("schema {topic}", topic=topic))
        .when(F.col("kind").startswith("log-"), words("log {topic}"))
        .when(F.col("cursor").isNotNull(), words("subscription {cursor} of {topic}", topic=topic))
        .otherwise(words("topic {topic}", topic=topic))
    )
