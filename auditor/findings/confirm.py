"""The confidence of findings after the second scan and the run before, and the owners of their ledgers.

A finding about a ledger is confirmed only if the ledger had the same version in both scans of a live store. A
ledger that changed in between may have been closed, repaired or moved while the bookies were read. A ledger
that was deleted in between has nothing left to lose, and garbage collection handles its copies on bookies. A
finding about a bookie that counts ledgers counts changed ledgers separately. If the second scan may only have
missed a ledger, its deletion is not certain. Findings about it then stay, but are not confirmed.

A suspect finding of a live store is confirmed if the run before found it too, if time can remove every doubt
about it, and if all of these hold:

    version    the ledger has the same version in both runs: a closed ledger gets no entries without a new one
    missing    each bookie that lacks entries lacks the same entries in both runs
    index      the data of each of these bookies is newer than the run before, by more than the grace period.
               Everything that was written to the ledger was written before the run before saw it, so a newer
               index shows it. The ledger's own time does not matter. The rule thus also works if the store
               keeps no times (a live etcd), or if a clock is wrong
    doubts     no doubt is left that newer data cannot remove (`auditor.tables.doubts`)

A finding that the run before confirmed counts like one that it suspected. In a series of runs with the same
finding, the first run counts; its time is carried on in the evidence, ``earlier_run``. Ledgers that changed
between the two scans of this run stay suspect. The time of saved metadata is unknown, so only clocks decide
about it.

A finding about a bookie is at most suspect if the data of this bookie is older than the metadata, or is of
another cluster. Its facts may be gone or different by now.

A finding about a ledger that an owner names has the owner in its evidence as ``owner``: tenant, namespace,
topic, cursor. A finding about a bookie concerns ledgers of many topics. Its evidence has ``owners``: the
owners of the ledgers in its sample, with the standing of these ledgers. Ledgers that a shadow topic borrows
belong to its source topic.
"""

from collections.abc import Collection
from typing import NamedTuple

from auditor.checks import BY_ID
from auditor.checks.finding_rows import utc
from auditor.model.columns import LEDGER, OWNER
from auditor.model.finding import Confidence
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.scans import unsettled_ledgers

OF_DELETED = ("orphan-ledger-deleting",)
"""Checks about ledgers that were deleted between the scans."""


def confirm(findings: DataFrame, moved: DataFrame | None) -> DataFrame:
    """Withdraw findings about ledgers that were deleted between scans; make those about changed ones suspect.

    ``moved`` has the differences between two scans of a live store (`auditor.tables.scans`); None if there
    was only one scan.
    """
    if moved is None:
        return findings
    concerned = ~F.col("id").isin(*OF_DELETED)
    rows = findings.join(unsettled_ledgers(moved), [*LEDGER], "left")
    remaining = rows.where(~(concerned & F.coalesce("deleted", F.lit(False))))
    changed = concerned & F.col("deleted").isNotNull()
    doubted = changed & (F.col("confidence") == Confidence.CONFIRMED.value)
    confidence = F.when(doubted, Confidence.SUSPECT.value).otherwise(F.col("confidence"))
    return remaining.withColumn("confidence", confidence).drop("deleted")


def doubt_unproved(findings: DataFrame, bookies: Collection[str]) -> DataFrame:
    """Make findings suspect that rest on data of ``bookies``, which is of another time or cluster."""
    if not bookies:
        return findings
    rests_on_data = F.col("id").isin([id for id, check in BY_ID.items() if check.rests_on.way in _OF_DATA])
    concerned = rests_on_data & F.col("bookie_id").isin(list(bookies))
    doubted = concerned & (F.col("confidence") == Confidence.CONFIRMED.value)
    confidence = F.when(doubted, Confidence.SUSPECT.value).otherwise(F.col("confidence"))
    return findings.withColumn("confidence", confidence)


_OF_DATA = ("copies", "disks")
_SUBJECT = ["id", *LEDGER, "version"]
_RUN = "name string, finished bigint"


class EarlierFindings(NamedTuple):
    """The findings of the run before, and that run's name and end, ms."""

    rows: DataFrame
    name: str
    finished: int


def healing_suspects(findings: DataFrame) -> DataFrame:
    """Return the suspect findings about which time can remove every doubt."""
    return findings.where(_healing())


def confirm_by_two_runs(
    findings: DataFrame, earlier: EarlierFindings, moved: DataFrame, bookies: DataFrame, grace_ms: int
) -> DataFrame:
    """Confirm the findings that two runs have seen; return all ``findings``.

    ``moved`` has the differences between the two scans of this run (`auditor.tables.scans`). ``bookies`` is
    the run's table bookies, which has the age of each index. ``grace_ms`` is the grace period.
    """
    suspects = _with_version(healing_suspects(findings))
    then = _with_version(earlier.rows.where("ledger_id is not null and bookie_id is null"))
    own = F.struct(F.lit(earlier.name).alias("name"), F.lit(earlier.finished).alias("finished"))
    first = F.coalesce(F.from_json(F.get_json_object("evidence", "$.earlier_run"), _RUN), own)
    then = then.where(F.col("confidence") != Confidence.UNKNOWN.value).select(
        *_SUBJECT, F.col("missing").alias("was_missing"), first.alias("first")
    )
    changed = unsettled_ledgers(moved).select(*LEDGER, F.lit(True).alias("changed"))
    times = bookies.where("index_time is not null").agg(
        F.map_from_entries(F.collect_list(F.struct("bookie_id", "index_time"))).alias("times")
    )
    met = suspects.join(then, _SUBJECT, "left").join(changed, [*LEDGER], "left").crossJoin(F.broadcast(times))
    was_seen = F.col("first").isNotNull() & F.col("changed").isNull() & _lacked_then()
    judged = _with_earlier_run(
        met, F.coalesce(was_seen, F.lit(False)), F.coalesce(_newer(grace_ms), F.lit(False))
    )
    return findings.where(~_healing()).unionByName(judged.select(*findings.columns))


def _healing() -> Column:
    lasting = F.get_json_object("evidence", "$.lasting_doubts")
    has_doubts = F.get_json_object("evidence", "$.doubts") != "[]"
    suspect = F.col("confidence") == Confidence.SUSPECT.value
    return F.coalesce(suspect & has_doubts & (lasting == "[]"), F.lit(False))


def _with_version(findings: DataFrame) -> DataFrame:
    """Add the ``version`` of the ledger in the first scan; null, which equals nothing, if it is not known."""
    return findings.withColumn("version", F.get_json_object("evidence", "$.metadata_version"))


def _lacked_then() -> Column:
    def same(replica: Column) -> Column:
        return F.exists(
            "was_missing", lambda was: (was.bookie_id == replica.bookie_id) & (was.groups == replica.groups)
        )

    return F.forall("missing", same)


def _newer(grace_ms: int) -> Column:
    after = F.col("first.finished") + grace_ms
    return F.forall("missing", lambda replica: F.try_element_at("times", replica.bookie_id) > after)


def _with_earlier_run(rows: DataFrame, was_seen: Column, newer: Column) -> DataFrame:
    """Add evidence of the earlier run to rows with ``was_seen``; confirm those with ``newer`` as well."""
    run = F.to_json("first")
    carried = F.concat(
        F.expr("left(evidence, length(evidence) - 1)"), F.lit(',"earlier_run":'), run, F.lit("}")
    )
    words = F.concat(
        "message",
        F.lit("; seen by the run of "),
        utc(F.col("first.finished")),
        F.lit(" at the same version, with an older index"),
    )
    sure = was_seen & newer
    return rows.withColumns(
        {
            "evidence": F.when(was_seen, carried).otherwise(F.col("evidence")),
            "message": F.when(sure, words).otherwise(F.col("message")),
            "confidence": F.when(sure, Confidence.CONFIRMED.value).otherwise(F.col("confidence")),
        }
    )


SAMPLED = 10
"""Largest number of ledgers whose owners are looked up for a finding: the first ones of its sample."""

_OF_LEDGERS = "sample array<string>, aliases array<struct<sample array<string>>>"
_OF_LOGS = "sample array<struct<keeps array<struct<ledger string>>>>"
"""Schemas of ledgers in evidence: as text, those of a bookie's old id, and those that keep an entry log."""


def with_owners(findings: DataFrame, ownership: DataFrame) -> DataFrame:
    """Add ``owner`` to the evidence of findings about a ledger, ``owners`` to that of findings with a sample.

    ``ownership`` is the run's table. ``owners`` has an element for each owner of sampled ledgers, with the
    keys ``ledgers``, ``standing`` and those of `OWNER`, which are null if nobody names the ledgers. The
    standing is ``unknown`` for a ledger that the table lacks.
    """
    ledgers = findings.where("ledger_id is not null").select(*LEDGER).distinct()
    owned_ledgers = _owner_of_each(ownership, ledgers).where("path is not null")
    text = F.to_json("owner", {"ignoreNullFields": "false"})
    rows = findings.join(owned_ledgers.select(*LEDGER, text.alias("owner")), [*LEDGER], "left")
    several = _owners_of_samples(findings, ownership).withColumnRenamed("evidence", "of")
    # A few for each bookie, so they are broadcast: findings of ledgers are not sorted for them.
    of_none = F.col("ledger_id").isNull() & (F.col("evidence") == F.col("of"))
    rows = rows.join(F.broadcast(several), of_none, "left")
    comma = F.when(F.col("evidence") == "{}", "").otherwise(",")
    key = F.when(F.col("owner").isNotNull(), '"owner":').otherwise('"owners":')
    parts = [F.expr("left(evidence, length(evidence) - 1)"), comma, key, F.coalesce("owner", "owners")]
    evidence = F.coalesce(F.concat(*parts, F.lit("}")), F.col("evidence"))
    return rows.withColumn("evidence", evidence).select(*findings.columns)


def _owner_of_each(ownership: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return a row for each ledger of ``ledgers`` that ``ownership`` has: ``path``, ``standing``, ``owner``.

    If several paths name the ledger, the first one counts; null if nobody names it.
    """
    own = ownership.where("ledger_id is not null and not coalesce(borrowed, false)")
    owner = F.struct(*OWNER).alias("owner")
    first = own.join(ledgers, [*LEDGER], "left_semi").groupBy(*LEDGER)
    return first.agg(F.min(F.struct("path", "standing", owner)).alias("first")).select(*LEDGER, "first.*")


def _owners_of_samples(findings: DataFrame, ownership: DataFrame) -> DataFrame:
    """Return ``evidence`` of findings without a ledger, and ``owners`` of its sampled ledgers, as JSON."""
    sampled = _sampled_ledgers(findings)
    ledger_owners = _owner_of_each(ownership, F.broadcast(sampled.select(*LEDGER).distinct()))
    nobody = F.struct(*(F.lit(None).cast("string").alias(name) for name in OWNER))
    sample_rows = sampled.join(F.broadcast(ledger_owners), [*LEDGER], "left").select(
        "evidence",
        *LEDGER,
        F.coalesce("standing", F.lit("unknown")).alias("standing"),
        F.coalesce("owner", nobody).alias("owner"),
    )
    by_owner = sample_rows.groupBy("evidence", "standing", "owner").agg(
        F.array_sort(F.collect_list("ledger_id")).alias("ledgers")
    )
    element = F.struct("ledgers", "standing", "owner.*")
    listed = by_owner.groupBy("evidence").agg(F.array_sort(F.collect_list(element)).alias("owners"))
    # As everywhere in JSON, ids are text.
    in_text = F.transform(
        "owners", lambda owner: owner.withField("ledgers", owner["ledgers"].cast("array<string>"))
    )
    return listed.select("evidence", F.to_json(in_text, {"ignoreNullFields": "false"}).alias("owners"))


def _sampled_ledgers(findings: DataFrame) -> DataFrame:
    """Return ``evidence`` of findings that name no ledger, with one row for each ledger in its samples.

    A sample may consist of paths instead of ledgers. A ledger of another scope ("7 of scope 1") has no known
    owner. Both give no row.
    """
    texts = F.from_json("evidence", _OF_LEDGERS)
    logs = F.from_json("evidence", _OF_LOGS)["sample"]
    lists = F.array(
        texts["sample"],
        F.flatten(texts["aliases"]["sample"]),
        F.flatten(F.transform(logs, lambda log: log["keeps"]["ledger"])),
    )
    names = F.flatten(F.transform(lists, lambda sample: F.coalesce(sample, F.array().cast("array<string>"))))
    ids = F.filter(F.transform(names, lambda name: name.try_cast("bigint")), lambda id: id.isNotNull())
    first = F.slice(F.array_distinct(ids), 1, SAMPLED)
    samples = findings.where("ledger_id is null").select("evidence").distinct()
    return samples.select(
        "evidence", F.lit(0).cast("bigint").alias(LEDGER[0]), F.explode(first).alias(LEDGER[1])
    )
