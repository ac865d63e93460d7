"""Entry logs whose ledgers map says something else than their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.attribution import with_attribution
from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, quantity, suspect_if, words
from auditor.checks.log_samples import SHOWN
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.CRITICAL,
    group="storage",
    rests_on=Basis.ENTRY_LOGS,
    needs={Need.ENTRY_LOGS},
    asks="entry_logs",
    urgency=3,
)
def entry_log_header_wrong(tables: Tables) -> DataFrame:
    """An entry log's ledgers map disagrees with the entries that the log holds.

    What it finds:
        Closed entry logs whose map can be read and lacks a ledger, has one too many, or other bytes of it.
        Every map is held to the length of its log, which tells of a ledger that it lacks; one log in 64, or
        all with `--deep`, is read entry by entry besides. One finding a bookie, with the logs and what is
        wrong with the first. Only in a run with `--entry-logs`.

    Why it matters:
        The collector believes the map: it deletes a log as soon as no ledger of the map is left, and with it
        the entries of the ledgers that the map lacks (bookkeeper #4607, #4658; pulsar #24482).

    How sure:
        Confirmed: map and entries are in one file. Suspect where a directory's cookie and place name two
        bookies.

    What to do:
        Stop collection on that bookie before its next pass, and copy the logs away. Then take the bookie out:
        its ledgers are copied from the other bookies, and it can be started empty.

    Commands:
        - `bkaudit decode entry-log FILE`
          says whose the bytes of a log are. Risk: none; it reads.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        A map of the right sum with wrong ledgers shows only where the log is read. In a log of the direct
        logger (dbStorage_directIOEntryLogger), which fills up blocks, so does a ledger that the map lacks. A
        map that cannot be read is none of this: the server reads the entries instead.
    """
    from pyspark.sql import functions as F

    assert tables.entry_logs is not None
    wrong = tables.entry_logs.where(
        "state = 'map-wrong' and ledger_id is null and kind = 'log' and bookie_id is not null"
    )
    shown = F.array_sort(F.collect_list(F.struct("path", "reason", "bytes")))
    rows = wrong.groupBy("bookie_id").agg(
        F.count("*").alias("logs"), F.sum("bytes").alias("bytes"), F.slice(shown, 1, SHOWN).alias("sample")
    )
    return finding_rows(
        with_attribution(rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message=words(
            F.col("bookie_id"),
            " has ",
            quantity(F.col("logs"), "entry log", "entry logs"),
            " whose ledgers map is wrong, so that collection may delete entries that are needed; ",
            F.col("sample")[0]["path"],
            ": ",
            F.col("sample")[0]["reason"],
        ),
        evidence={"logs": "logs", "bytes": "bytes", "sample": "sample", "rows": F.lit("tables/entry_logs")},
    )
