"""Ledgers that are both in an object store and in BookKeeper."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import (
    finding_rows,
    owner_evidence,
    owner_name,
    ownership_with_fault,
    suspect_if,
    words,
)
from auditor.model.columns import LEDGER


@check(Severity.NOTE, rests_on=Basis.OWNERS, asks="ownership")
def offload_not_trimmed(tables: Tables) -> DataFrame:
    """A ledger is completely offloaded to an object store, but still takes up space on bookies' disks.

    What it finds:
        Reports ledgers whose topic's ledger list says that BookKeeper's copy was deleted. Also reports
        ledgers whose offload was completed longer ago than `--owner-grace`. With `--offload-listing`, only
        ledgers whose copy is in the bucket count.

    Why it matters:
        The ledger's disk space is not freed.

    How sure:
        Confirmed if the bucket's listing has both objects of the copy. Suspect if the bucket was not
        listed: BookKeeper may have the only copy.

    What to do:
        If the bucket was not listed, keep the ledger and list the bucket (`--offload-listing`). If the
        topic's ledger list says that BookKeeper's copy was deleted, the delete failed. Pulsar does not
        repeat it: see `ledger-unowned`. Otherwise the offload deletion lag (`pulsar-admin namespaces`) may
        exceed `--owner-grace`, or the topic is not loaded.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        The objects are listed, but not read.
    """
    deletion_text = F.when(F.col("offload") == "deleted", "is recorded as deleted from BookKeeper").otherwise(
        "is not recorded as deleted from BookKeeper"
    )
    rows = ownership_with_fault(tables, "offload-not-trimmed")
    is_bucket_listed = "offload_objects" in tables.frames
    if is_bucket_listed:
        # A ledger without a whole copy in the bucket is no leak: offload-object-missing finds it.
        complete_copies = (
            tables.offload_objects.where("has_data and has_index").select("uid", *LEDGER).distinct()
        )
        rows = rows.withColumn("uid", F.lowercase_digits("offload_uid")).join(
            complete_copies, ["uid", *LEDGER], "left_semi"
        )
    doubt_text = (
        None if is_bucket_listed else "; the bucket was not listed, so BookKeeper may have the only copy"
    )
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        confidence=suspect_if(F.lit(not is_bucket_listed)),
        message=words(
            "ledger {ledger} of {owner_name} {copy} and {given_up}, but BookKeeper still has it{doubt}",
            owner_name=owner_name(),
            copy="has a complete copy in the bucket"
            if is_bucket_listed
            else "has, according to its topic, a complete copy in the bucket",
            given_up=deletion_text,
            doubt=doubt_text or "",
        ),
        evidence=owner_evidence(
            "offload", "offload_uid", "length", f"{str(is_bucket_listed).lower()} AS bucket_listed"
        ),
    )
