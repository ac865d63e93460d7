"""Confidence of findings, judged from the second scan and the previous run, and owners of their ledgers.

A live store is scanned twice. A finding about a ledger is confirmed only if both scans saw the same version
of the ledger. A ledger that changed between the scans may have been closed, repaired or moved while the
bookies were read. A ledger that was deleted between the scans has nothing left to lose, and garbage
collection removes its copies. If a finding about a bookie has a number of ledgers, it counts the changed
ledgers separately. If the second scan may have missed a ledger, the deletion of the ledger is not certain.
Findings about the ledger then stay, but are not confirmed.

A suspect finding of a live store is confirmed if the previous run also had it, with any confidence. All of
these conditions must be met too:

    version    the ledger has the same version in both runs: without a new version, a closed ledger gets no
               new entries
    missing    each bookie that lacks entries lacks the same entries in both runs
    index      the data of each of these bookies is newer than the previous run, by more than the grace
               period. All entries of the ledger were written before the previous run saw the ledger, so the
               newer index shows them. The rule does not use the ledger's own time. So it also works if the
               store keeps no times (a live etcd), or if a clock is wrong
    doubts     all doubts about the finding are transient (`auditor.tables.doubts`)

In a series of runs with the same finding, the first run counts. Each run copies the name and time of the
first run to the evidence (``earlier_run``). Findings about ledgers that changed between the two scans of
this run stay suspect. Findings from saved metadata are not confirmed in this way, because the time of the
metadata is unknown.

If a bookie's data is older than the metadata, or belongs to another cluster, the facts may have changed. A
finding that depends on such data is at most suspect.

If an owner names the ledger of a finding, the evidence has this owner as ``owner``: tenant, namespace,
topic, cursor. A finding about a bookie concerns ledgers of many topics. Its evidence has ``owners``: the
owners of the sampled ledgers, and a word such as owned or unowned (``standing``, see
`auditor.tables.ownership`). Ledgers that a shadow topic borrows belong to its source topic.
"""

from collections.abc import Collection
from typing import NamedTuple

from auditor.checks import CHECK_BY_ID
from auditor.checks.finding_rows import utc_text
from auditor.model.columns import LEDGER, OWNER
from auditor.model.finding import Confidence
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.scans import find_unsettled_ledgers

CHECKS_OF_DELETED_LEDGERS = ("orphan-ledger-deleting",)
"""Checks about ledgers that were deleted between the scans."""


def confirm(findings: DataFrame, moved_ledgers: DataFrame | None) -> DataFrame:
    """Drop findings about ledgers deleted between the scans. Make findings about changed ledgers suspect.

    ``moved_ledgers`` has the differences between two scans of a live store (`auditor.tables.scans`). It is
    None if there was only one scan.
    """
    if moved_ledgers is None:
        return findings
    can_be_withdrawn = ~F.col("id").isin(*CHECKS_OF_DELETED_LEDGERS)
    rows = findings.join(find_unsettled_ledgers(moved_ledgers), [*LEDGER], "left")
    undeleted_findings = rows.where(~(can_be_withdrawn & F.coalesce("deleted", F.lit(False))))
    is_ledger_deleted = can_be_withdrawn & F.col("deleted").isNotNull()
    becomes_suspect = is_ledger_deleted & (F.col("confidence") == Confidence.CONFIRMED.value)
    confidence = F.when(becomes_suspect, Confidence.SUSPECT.value).otherwise(F.col("confidence"))
    return undeleted_findings.withColumn("confidence", confidence).drop("deleted")


def doubt_unproved_data(findings: DataFrame, bookies: Collection[str]) -> DataFrame:
    """Make confirmed findings suspect if they depend on the data of ``bookies``.

    The data of these bookies is older than the metadata, or belongs to another cluster.
    """
    if not bookies:
        return findings
    rests_on_bookie_data = F.col("id").isin(
        [id for id, check in CHECK_BY_ID.items() if check.rests_on.data_kind in _BOOKIE_DATA_KINDS]
    )
    can_be_withdrawn = rests_on_bookie_data & F.col("bookie_id").isin(list(bookies))
    becomes_suspect = can_be_withdrawn & (F.col("confidence") == Confidence.CONFIRMED.value)
    confidence = F.when(becomes_suspect, Confidence.SUSPECT.value).otherwise(F.col("confidence"))
    return findings.withColumn("confidence", confidence)


_BOOKIE_DATA_KINDS = ("copies", "disks")
_MATCH_COLUMNS = ["id", *LEDGER, "version"]
_EARLIER_RUN_SCHEMA = "name string, finished bigint"


class EarlierFindings(NamedTuple):
    """The findings of the previous run, with the name and the end (ms) of that run."""

    rows: DataFrame
    name: str
    finish_time: int


def suspects_without_lasting_doubt(findings: DataFrame) -> DataFrame:
    """Return the suspect findings with transient doubts only: a newer read can settle all of them."""
    return findings.where(_has_only_transient_doubts())


def confirm_by_two_runs(
    findings: DataFrame,
    earlier_run: EarlierFindings,
    moved_ledgers: DataFrame,
    bookies: DataFrame,
    grace_ms: int,
) -> DataFrame:
    """Confirm the suspect findings that two runs have found. Return all ``findings``.

    ``moved_ledgers`` has the differences between the two scans of this run (`auditor.tables.scans`).
    ``bookies`` is the run's table bookies, which has the time of each index. ``grace_ms`` is the grace
    period, ms.
    """
    suspects = _add_ledger_version(suspects_without_lasting_doubt(findings))
    earlier_rows = _add_ledger_version(earlier_run.rows.where("ledger_id is not null and bookie_id is null"))
    earlier_run_struct = F.struct(
        F.lit(earlier_run.name).alias("name"), F.lit(earlier_run.finish_time).alias("finished")
    )
    first_run = F.coalesce(
        F.from_json(F.get_json_object("evidence", "$.earlier_run"), _EARLIER_RUN_SCHEMA), earlier_run_struct
    )
    earlier_rows = earlier_rows.where(F.col("confidence") != Confidence.UNKNOWN.value).select(
        *_MATCH_COLUMNS, F.col("missing").alias("was_missing"), first_run.alias("first")
    )
    changed_ledgers = find_unsettled_ledgers(moved_ledgers).select(*LEDGER, F.lit(True).alias("changed"))
    index_times = bookies.where("index_time is not null").agg(
        F.map_from_entries(F.collect_list(F.struct("bookie_id", "index_time"))).alias("times")
    )
    joined_rows = (
        suspects.join(earlier_rows, _MATCH_COLUMNS, "left")
        .join(changed_ledgers, [*LEDGER], "left")
        .crossJoin(F.broadcast(index_times))
    )
    was_seen_earlier = F.col("first").isNotNull() & F.col("changed").isNull() & _was_replica_lacking()
    confirmed_rows = _add_earlier_run(
        joined_rows,
        F.coalesce(was_seen_earlier, F.lit(False)),
        F.coalesce(_is_index_newer(grace_ms), F.lit(False)),
    )
    return findings.where(~_has_only_transient_doubts()).unionByName(confirmed_rows.select(*findings.columns))


def _has_only_transient_doubts() -> Column:
    lasting_doubts = F.get_json_object("evidence", "$.lasting_doubts")
    has_doubts = F.get_json_object("evidence", "$.doubts") != "[]"
    is_suspect = F.col("confidence") == Confidence.SUSPECT.value
    return F.coalesce(is_suspect & has_doubts & (lasting_doubts == "[]"), F.lit(False))


def _add_ledger_version(findings: DataFrame) -> DataFrame:
    """Add the column ``version``: the version of the ledger in the first scan.

    An unknown version is null, which is not equal to any version.
    """
    return findings.withColumn("version", F.get_json_object("evidence", "$.metadata_version"))


def _was_replica_lacking() -> Column:
    def lacks_same_entries(replica: Column) -> Column:
        return F.exists(
            "was_missing",
            lambda earlier_replica: (
                (earlier_replica.bookie_id == replica.bookie_id) & (earlier_replica.groups == replica.groups)
            ),
        )

    return F.forall("missing", lacks_same_entries)


def _is_index_newer(grace_ms: int) -> Column:
    earliest_time = F.col("first.finished") + grace_ms
    return F.forall("missing", lambda replica: F.try_element_at("times", replica.bookie_id) > earliest_time)


def _add_earlier_run(rows: DataFrame, was_seen_earlier: Column, is_index_newer: Column) -> DataFrame:
    """Add name and time of the earlier run to the evidence of rows for which ``was_seen_earlier`` is true.

    A row becomes confirmed if ``is_index_newer`` is true too.
    """
    run = F.to_json("first")
    carried_evidence = F.concat(
        F.expr("left(evidence, length(evidence) - 1)"), F.lit(',"earlier_run":'), run, F.lit("}")
    )
    confirmed_message = F.concat(
        "message",
        F.lit("; also seen by the run of "),
        utc_text(F.col("first.finished")),
        F.lit(", for the same ledger version and with an older index"),
    )
    is_confirmed = was_seen_earlier & is_index_newer
    return rows.withColumns(
        {
            "evidence": F.when(was_seen_earlier, carried_evidence).otherwise(F.col("evidence")),
            "message": F.when(is_confirmed, confirmed_message).otherwise(F.col("message")),
            "confidence": F.when(is_confirmed, Confidence.CONFIRMED.value).otherwise(F.col("confidence")),
        }
    )


MAX_SAMPLED_LEDGERS = 10
"""Largest number of ledgers whose owners are looked up for a finding: the first ones of its sample."""

_LEDGERS_SCHEMA = "sample array<string>, aliases array<struct<sample array<string>>>"
_LOGS_SCHEMA = "sample array<struct<keeps array<struct<ledger string>>>>"
"""JSON schemas of sampled ledgers in evidence: as text, of a bookie's old id, and in entry logs."""


def add_owners(findings: DataFrame, ownership: DataFrame) -> DataFrame:
    """Add ``owner`` to the evidence of findings about a ledger, and ``owners`` to evidence with a sample.

    An owner is what a ledger belongs to, such as a Pulsar topic. ``ownership`` is the run's table. ``owners``
    has an element for each owner of sampled ledgers. Its keys are ``ledgers``, ``standing`` (such as owned),
    and the keys in `OWNER`. The keys in `OWNER` are null if no owner names the ledgers. A ledger that is not
    in the table ``ownership`` has the standing ``unknown``.
    """
    ledgers = findings.where("ledger_id is not null").select(*LEDGER).distinct()
    owned_ledgers = _first_owners(ownership, ledgers).where("path is not null")
    owner_text = F.to_json("owner", {"ignoreNullFields": "false"})
    rows = findings.join(owned_ledgers.select(*LEDGER, owner_text.alias("owner")), [*LEDGER], "left")
    sample_owners = _owners_of_samples(findings, ownership).withColumnRenamed("evidence", "of")
    # There are few per bookie, so they are broadcast, and findings about ledgers need no sort.
    has_sample = F.col("ledger_id").isNull() & (F.col("evidence") == F.col("of"))
    rows = rows.join(F.broadcast(sample_owners), has_sample, "left")
    key_separator = F.when(F.col("evidence") == "{}", "").otherwise(",")
    owner_key = F.when(F.col("owner").isNotNull(), '"owner":').otherwise('"owners":')
    evidence_parts = [
        F.expr("left(evidence, length(evidence) - 1)"),
        key_separator,
        owner_key,
        F.coalesce("owner", "owners"),
    ]
    evidence = F.coalesce(F.concat(*evidence_parts, F.lit("}")), F.col("evidence"))
    return rows.withColumn("evidence", evidence).select(*findings.columns)


def _first_owners(ownership: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return ``path``, ``standing`` and ``owner`` of each of the ``ledgers`` that is in ``ownership``.

    ``path`` is the path of an owner (such as a topic) that names the ledger. If there are several paths, the
    first one counts. ``path`` and ``owner`` are null if no path names the ledger. ``standing`` is a word,
    such as owned or unowned.
    """
    owned_rows = ownership.where("ledger_id is not null and not coalesce(borrowed, false)")
    owner = F.struct(*OWNER).alias("owner")
    first_owners = owned_rows.join(ledgers, [*LEDGER], "left_semi").groupBy(*LEDGER)
    return first_owners.agg(F.min(F.struct("path", "standing", owner)).alias("first")).select(
        *LEDGER, "first.*"
    )


def _owners_of_samples(findings: DataFrame, ownership: DataFrame) -> DataFrame:
    """Return the owners of the ledgers in samples, for findings that are not about a single ledger.

    The result has the finding's ``evidence`` and its ``owners`` as JSON. An owner is, for example, a topic.
    """
    sampled_ledgers = _sampled_ledgers(findings)
    ledger_owners = _first_owners(ownership, F.broadcast(sampled_ledgers.select(*LEDGER).distinct()))
    unnamed_owner = F.struct(*(F.lit(None).cast("string").alias(name) for name in OWNER))
    sample_rows = sampled_ledgers.join(F.broadcast(ledger_owners), [*LEDGER], "left").select(
        "evidence",
        *LEDGER,
        F.coalesce("standing", F.lit("unknown")).alias("standing"),
        F.coalesce("owner", unnamed_owner).alias("owner"),
    )
    rows_by_owner = sample_rows.groupBy("evidence", "standing", "owner").agg(
        F.array_sort(F.collect_list("ledger_id")).alias("ledgers")
    )
    owner_entry = F.struct("ledgers", "standing", "owner.*")
    owner_lists = rows_by_owner.groupBy("evidence").agg(
        F.array_sort(F.collect_list(owner_entry)).alias("owners")
    )
    # Ids are text in all JSON of an audit.
    owner_texts = F.transform(
        "owners", lambda owner: owner.withField("ledgers", owner["ledgers"].cast("array<string>"))
    )
    return owner_lists.select(
        "evidence", F.to_json(owner_texts, {"ignoreNullFields": "false"}).alias("owners")
    )


def _sampled_ledgers(findings: DataFrame) -> DataFrame:
    """Return a row (``evidence``, ledger) for each ledger in the samples of findings that name no ledger.

    Sampled paths give no rows. Ledgers with a scope (upper half of the 128-bit id) other than 0 give none
    either. Their owner is never known. In samples they have the form "7 of scope 1".
    """
    evidence_texts = F.from_json("evidence", _LEDGERS_SCHEMA)
    logs = F.from_json("evidence", _LOGS_SCHEMA)["sample"]
    sample_lists = F.array(
        evidence_texts["sample"],
        F.flatten(evidence_texts["aliases"]["sample"]),
        F.flatten(F.transform(logs, lambda log_entry: log_entry["keeps"]["ledger"])),
    )
    column_names = F.flatten(
        F.transform(sample_lists, lambda sample: F.coalesce(sample, F.array().cast("array<string>")))
    )
    ids = F.filter(F.transform(column_names, lambda name: name.try_cast("bigint")), lambda id: id.isNotNull())
    sampled_ids = F.slice(F.array_distinct(ids), 1, MAX_SAMPLED_LEDGERS)
    samples = findings.where("ledger_id is null").select("evidence").distinct()
    return samples.select(
        "evidence", F.lit(0).cast("bigint").alias(LEDGER[0]), F.explode(sampled_ids).alias(LEDGER[1])
    )
