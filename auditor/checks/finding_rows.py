"""Functions that turn the rows of a query into findings with all columns.

    rows -> finding_rows(rows, ledger_id=..., message=..., evidence={...}) -> FINDING_COLUMNS

A column that the caller does not set is null or an empty array. ``confidence`` is confirmed by default.
`with_samples` combines many rows into one. No function of this module runs a query.
"""

from collections.abc import Mapping, Sequence
from string import Formatter

from auditor.checks.check import FINDING_COLUMNS
from auditor.model.columns import LEDGER, OWNER
from auditor.model.finding import Confidence
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables

# Largest number of groups in a finding. An index full of holes has as many groups as entries.
MAX_SHOWN_GROUPS = 1000
_GROUP_BYTES = 24
MISSING_DIGEST_SQL = (
    "CASE WHEN size(missing) > 0 THEN substring(sha2(array_join(transform(array_sort(missing), part -> "
    "concat(part.bookie_id, ' ', translate(hex(part.groups), 'ABCDEF', 'abcdef'))), '|'), 256), 1, 16) END"
)
"""SQL for `auditor.model.acceptance.missing_digest` of a row.

It uses `translate`, which Spark loads faster than `lower`.
"""
FALLBACK_MESSAGE = "a value of this message is missing; see the evidence"
"""Message that replaces null as the message of a finding. A null is a bug, and tests fail if they see one."""


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
    """Return one finding per row.

    Args:
        rows: rows to turn into findings. Rows about a ledger also have ``scope_id``, the upper half of the
            128-bit ledger id.
        message: a column, or a template for `words`.
        evidence: a SQL select list, or a mapping from keys to columns or SQL. It becomes a JSON object,
            which keeps nulls.
        ledger_id: SQL for the ledger id. None if the finding is about a bookie or the cluster.
        bookie_id: the bookie id. None if the finding is about a ledger or the cluster.
        urgency: the urgency. None: the urgency of the check.
        severity: the severity. None: the severity of the check.
        confidence: the confidence of the findings.
        missing: entries that are confirmed missing, by bookie. None: an empty array.
        unknown: bookies whose copies are unknown. None: an empty array.
    """
    sql_by_column: dict[str, Column | str] = {
        "urgency": urgency if urgency is not None else "null",
        "severity": severity if severity is not None else "null",
        "confidence": f"'{confidence}'" if isinstance(confidence, Confidence) else confidence,
        "ledger_id": ledger_id if ledger_id is not None else "null",
        "bookie_id": bookie_id if bookie_id is not None else "null",
        "missing": missing if missing is not None else "array()",
        "unknown": unknown if unknown is not None else "array()",
        "message": F.ifnull(words(message) if isinstance(message, str) else message, F.lit(FALLBACK_MESSAGE)),
        "evidence": _evidence_json(evidence),
    }
    if ledger_id is None:
        sql_by_column["scope_id"] = "null"
    else:
        sql_by_column["scope_id"] = f"CASE WHEN {ledger_id} IS NOT NULL THEN scope_id END"
    return rows.select(
        *(_cast(sql_by_column[name], name, sql_type) for name, sql_type in FINDING_COLUMNS.items())
    )


def suspect_if(condition: Column) -> Column:
    """Return suspect if the condition is true, and confirmed if it is false or null."""
    return F.when(condition, Confidence.SUSPECT.value).otherwise(Confidence.CONFIRMED.value)


def words(template: str, **parts: Column | str | int) -> Column:
    """Return a sentence with values filled in. The sentence is null if one of the values is null.

    Text in braces is the name of one of ``parts``, or otherwise SQL over the columns of the row. ``{ledger}``
    becomes the row's `LEDGER_NAME`. ``{total:ledger|ledgers}`` becomes a number with its noun.
    ``{sample:,}`` becomes the elements of an array with commas between them. Wrap a part that may be null in
    `empty_if_null`.
    """
    text_columns = []
    for text, name, noun_form, _ in Formatter().parse(template):
        if text:
            text_columns.append(F.lit(text))
        if name is not None:
            value = F.lit(parts[name]) if name in parts else F.expr(LEDGER_NAME if name == "ledger" else name)
            text_columns.append(_with_noun_form(value, noun_form or ""))
    return F.concat(*text_columns)


def _with_noun_form(value: Column, noun_form: str) -> Column:
    if noun_form == ",":
        return F.array_join(value, ", ")
    text = value.cast("string")
    if not noun_form:
        return text
    singular_noun, plural_noun = noun_form.split("|")
    return F.when(value == 1, f"1 {singular_noun}").otherwise(F.concat(text, F.lit(f" {plural_noun}")))


def empty_if_null(template_part: Column) -> Column:
    """Return a part of a sentence, or an empty text if the part is null."""
    return F.coalesce(template_part, F.lit(""))


def name_of_ledger(scope_id: str, ledger_id: str) -> str:
    """Return SQL for a ledger's name, such as "7" or "7 of scope 1" (upper 64 bits). Arguments are SQL."""
    scope_clause = (
        f"CASE WHEN {scope_id} != 0 THEN concat(' of scope ', cast({scope_id} AS string)) ELSE '' END"
    )
    return f"concat(cast({ledger_id} AS string), {scope_clause})"


LEDGER_NAME = name_of_ledger("scope_id", "ledger_id")
"""SQL for the name of a row's ledger, such as "7" or "7 of scope 1"."""


def meanings_of_codes(column: str, meaning_by_code: Mapping[str, str]) -> Column:
    """Replace each code in an array column with its meaning. A code without a meaning is kept."""
    code_and_text_literals = [
        F.lit(text) for code_and_meaning in meaning_by_code.items() for text in map(str, code_and_meaning)
    ]
    meaning_map = F.create_map(*code_and_text_literals)
    return F.transform(F.col(column), lambda code: F.coalesce(F.element_at(meaning_map, code), code))


def utc_text(time_ms: Column) -> Column:
    """Return milliseconds since 1970 as a text such as "2026-11-21 07:00:00 UTC"."""
    timestamp = F.to_utc_timestamp(F.timestamp_millis(time_ms), F.current_timezone())
    return F.concat(F.date_format(timestamp, "yyyy-MM-dd HH:mm:ss"), F.lit(" UTC"))


def list_entry_groups(groups: Column, max_groups: int | None = MAX_SHOWN_GROUPS) -> Column:
    """Return the first ``max_groups`` of the packed groups of entry ids, each as an array of numbers.

    If ``max_groups`` is None, all groups are returned. Each array has the first start, the last start, the
    size and the period of one group.
    """

    def read_number(offset: Column, first_byte: int, byte_count: int) -> Column:
        # conv() reads an unsigned number; no value here is negative.
        return F.conv(F.hex(F.substring(groups, offset + first_byte, F.lit(byte_count))), 16, 10).cast(
            "bigint"
        )

    shown_bytes = F.length(groups)
    if max_groups is not None:
        shown_bytes = F.least(shown_bytes, F.lit(max_groups * _GROUP_BYTES))
    group_offsets = F.filter(
        F.sequence(F.lit(0), shown_bytes, F.lit(_GROUP_BYTES)), lambda offset: offset < shown_bytes
    )
    return F.transform(
        group_offsets,
        lambda offset: F.array(
            read_number(offset, 1, 8),
            read_number(offset, 9, 8),
            read_number(offset, 17, 4),
            read_number(offset, 21, 4),
        ),
    )


def _cast(value: Column | str, name: str, sql_type: str) -> Column:
    """Return a value as a named column of a SQL type.

    A value in the form of SQL text needs one call to Java. A value in the form of a column needs thousands.
    """
    if isinstance(value, str):
        return F.expr(f"cast({value} AS {sql_type}) AS {name}")
    return value.cast(sql_type).alias(name)


def _evidence_json(evidence: str | Mapping[str, Column | str]) -> Column | str:
    if isinstance(evidence, str):
        return f"to_json(struct({evidence}), map('ignoreNullFields', 'false'))"
    columns = (
        F.expr(f"{value} AS `{key}`") if isinstance(value, str) else value.alias(key)
        for key, value in evidence.items()
    )
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


SAMPLE_SIZE = 10


def with_samples(
    rows: DataFrame, group_columns: str | Sequence[str], sample_column: str, *aggregates: Column
) -> DataFrame:
    """Return one row for each value of ``group_columns``, with the columns ``total`` and ``sample``.

    ``total`` is the number of rows. ``sample`` has the first 10 values of ``sample_column``. The query
    numbers the rows before it groups them, so that a group of millions of rows needs no long array.

    Args:
        rows: rows to group.
        group_columns: name of a column, or several names.
        sample_column: column whose first values become ``sample``.
        aggregates: further columns of the result.
    """
    key_columns = [group_columns] if isinstance(group_columns, str) else list(group_columns)
    row_number = (
        f"row_number() OVER (PARTITION BY {', '.join(key_columns)} ORDER BY {sample_column}) AS _number"
    )
    sample = F.expr(
        f"array_sort(collect_list(CASE WHEN _number <= {SAMPLE_SIZE} THEN {sample_column} END)) AS sample"
    )
    return (
        rows.selectExpr("*", row_number)
        .groupBy(*key_columns)
        .agg(F.expr("count(*) AS total"), sample, *aggregates)
    )


def with_ledgers(rows: DataFrame, group_columns: str | Sequence[str], *aggregates: Column) -> DataFrame:
    """Return the result of `with_samples` for rows about ledgers, with ledger names in ``sample``."""
    ledger_rows = rows.selectExpr("*", f"struct({', '.join(LEDGER)}) AS _ledger")
    ledger_names = F.expr(f"transform(sample, each -> {name_of_ledger('each.scope_id', 'each.ledger_id')})")
    return with_samples(ledger_rows, group_columns, "_ledger", *aggregates).withColumn("sample", ledger_names)


def with_attribution(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add the column ``attribution_suspect`` to rows that have a ``bookie_id``.

    The column is true if the bookie's data may belong to another bookie. No finding about such a bookie is
    confirmed, because no data is lost if only two disks are swapped.
    """
    suspect_bookie_ids = tables.roster.suspect_bookie_ids
    is_suspect = (
        F.coalesce(F.col("bookie_id").isin(suspect_bookie_ids), F.lit(False))
        if suspect_bookie_ids
        else F.lit(False)
    )
    return rows.withColumn("attribution_suspect", is_suspect)


def ownership_with_fault(tables: Tables, fault: str) -> DataFrame:
    """Return the rows of the table ownership that have this fault."""
    return tables.ownership.where(F.col("fault") == fault)


def owner_evidence(*columns: str) -> str:
    """Return SQL for the evidence of a finding about an owner, such as a topic.

    The evidence has the owner and ``columns`` of the table ownership.
    """
    return ", ".join((*OWNER, *columns))


def owner_name() -> Column:
    """Return a row's owner as text, such as "topic shop/orders/returns"."""
    topic_path = F.concat_ws("/", "tenant", "namespace", "topic")
    return (
        F.when(F.col("topic").isNull(), words("the data at {path}"))
        .when(F.col("kind") == "schema", words("schema {topic}", topic=topic_path))
        .when(F.col("kind").startswith("log-"), words("log {topic}"))
        .when(F.col("cursor").isNotNull(), words("subscription {cursor} of {topic}", topic=topic_path))
        .otherwise(words("topic {topic}", topic=topic_path))
    )
