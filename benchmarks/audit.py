"""Whole audits of 100,000 ledgers with three copies each, once for each form of bookie indexes.

Faults are planted in the cluster. An audit that does not report exactly these faults ends the benchmark.
The time includes the start of the Spark session. ``BKAUDIT_LEDGERS`` sets the number of ledgers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from benchmarks.audited import FORM_COLLECTED, FORM_DATABASES, FORM_FILES, audit_in_process
from benchmarks.cluster import Cluster
from benchmarks.measure import Line

LEDGERS = int(os.environ.get("BKAUDIT_LEDGERS", "100_000"))
MAX_STAGES_SHOWN = 3


def lines() -> Iterator[Line]:
    """Yield one line for each form of indexes.

    The audits of index files and of RocksDB are compared with the audit of collected tables. An audit only
    copies collected tables.
    """
    collected_tables_audit = audit_in_process(Cluster(LEDGERS), FORM_COLLECTED)
    for index_form in (FORM_COLLECTED, FORM_FILES, FORM_DATABASES):
        audited = (
            collected_tables_audit
            if index_form == FORM_COLLECTED
            else audit_in_process(Cluster(LEDGERS), index_form)
        )
        longest_stages = sorted(audited.stages.values(), key=lambda stage: -stage.seconds)[:MAX_STAGES_SHOWN]
        yield Line(
            f"audit, {LEDGERS:,} ledgers, {index_form}",
            LEDGERS,
            "ledgers",
            audited.seconds,
            None if audited is collected_tables_audit else FORM_COLLECTED,
            LEDGERS,
            collected_tables_audit.seconds,
            java_mib=audited.java_mib,
            python_mib=audited.python_mib,
            shuffle_bytes=audited.shuffle_bytes,
            spill_bytes=audited.spill_bytes,
            note=f"{audited.seconds:.1f} s; longest: "
            + ", ".join(f"{stage.name} {stage.seconds:.1f} s" for stage in longest_stages),
        )
