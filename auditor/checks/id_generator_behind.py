"""Stores whose id generator would give out ids that are already in use."""

from auditor.checks.check import (
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    check,
)
from auditor.checks.finding_rows import finding_rows, suspect_if, words


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    needs=(),
    asks="id_generators_behind",
    holds=(HoldRule(HoldTarget.METADATA_STORE, (ActionKind.DELETE_LEDGER,)),),
    do_now="advance the id generator beyond every id in use before a ledger is created",
    settings=("id_spread",),
)
def id_generator_behind(tables: Tables) -> DataFrame:
    """The store's id generator would give out ids that ledgers already have.

    What it finds:
        Reports an id generator if a listed ledger, or an orphan (a ledger without metadata), has the
        generator's next id or a higher one. Etcd has 128 generators.

    Why it matters:
        The generator gives out the id of a deleted ledger again. A bookie that still has the old ledger
        serves its entries as entries of the new ledger. The cause is usually a store that was restored
        without its generator.

    How sure:
        Confirmed if the application never chooses ids (Pulsar). Also confirmed if bookies hold orphans with
        such ids and the generator gave out every listed id. Suspect if an application may have chosen these
        ids itself.

    What to do:
        Create no ledger until the generator is beyond every id in use. In ZooKeeper, create and delete
        sequential znodes below idgen until their sequence number exceeds the highest id of the evidence.
        In etcd, write the bucket's key once for each id to skip.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Ignores the flat layout, dumps without cversion, and stores whose own znodes are unreadable. Reports
        nothing if an application clearly chooses ids itself. One sign is an id beyond the generator's range.
        Another is fewer than 1 listed ledger per 1,000 ids from its next id to the highest listed id.
    """
    may_be_generated = (F.col("chosen") == 0) & (
        F.col("listed") * tables.cluster.settings.id_spread >= F.col("listed_highest") - F.col("next") + 1
    )
    has_generated_ids = (F.col("drawn") > 0) | ((F.col("listed") > 0) & may_be_generated)
    rows = tables.id_generators.where(has_generated_ids | (F.col("held") > 0))
    is_in_use = F.array_compact(
        F.array(
            F.when(
                has_generated_ids,
                words("{listed:listed ledger has|listed ledgers have} ids up to {listed_highest}"),
            ),
            F.when(
                F.col("held") > 0,
                words("a bookie holds {held:deleted ledger|deleted ledgers} with ids up to {held_highest}"),
            ),
        )
    )
    return finding_rows(
        rows,
        confidence=suspect_if((F.col("drawn") == 0) & (F.col("held") == 0)),
        message=words(
            "id generator: the next ledger gets id {next}, but {in_use}; a reused id mixes entries of two "
            "ledgers",
            in_use=F.array_join(is_in_use, "; "),
        ),
        evidence="string(low) AS generator_low, string(next) AS next_id, listed, string(listed_highest) AS "
        "listed_highest, drawn, held, string(held_highest) AS held_highest",
    )
