"""Audits of one million and of ten million ledgers, with three copies each and a driver of 2 GB.

The metadata come from a ZooKeeper snapshot and the indexes from collected tables. The findings must be the
planted ones. Every audit has its own Java process. The lines have the time of the whole command and of the
longest stages. ``BKAUDIT_LEDGERS`` sets the larger size.

Further lines measure four variants. In the first two, each bookie has an entry in its journal, or one bookie
in ten gives answers. In the other two, the run is under ``file://`` or under ``s3a://``. The last one needs a
bucket in ``BKAUDIT_S3``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.audited import (
    FORM_ASKED_BOOKIES,
    FORM_COLLECTED,
    FORM_UNFLUSHED,
    AuditCosts,
    audit_in_process,
)
from benchmarks.cluster import Cluster
from benchmarks.join_again import JoinVariant
from benchmarks.measure import Line

LARGE_LEDGER_COUNT = int(os.environ.get("BKAUDIT_LEDGERS", "10_000_000"))
BOOKIES = 500
DRIVER_MEMORY = "2g"
DEFAULT_DRIVER_JOIN, LARGE_DRIVER_JOIN, SPARK_ROWS_JOIN = (
    JoinVariant(DRIVER_MEMORY),
    JoinVariant("8g"),
    JoinVariant(DRIVER_MEMORY, joins_blocks=False),
)
FIXED_STAGES = ("spark", "starting Spark", "report", "changes")
"""Stages whose cost does not depend on the number of ledgers."""
MAX_STAGES_SHOWN = 6


def lines() -> Iterator[Line]:
    """Yield lines for the whole audit and its longest stages.

    They compare the time per ledger of the large cluster with that of the small one.
    """
    small_audit = audit_in_process(Cluster(LARGE_LEDGER_COUNT // 10, BOOKIES), memory=DRIVER_MEMORY)
    large_audit = audit_in_process(
        Cluster(LARGE_LEDGER_COUNT, BOOKIES),
        memory=DRIVER_MEMORY,
        join_variants=(DEFAULT_DRIVER_JOIN, LARGE_DRIVER_JOIN, SPARK_ROWS_JOIN),
    )
    join_stage = large_audit.stages["unequal"]
    yield replace(
        _compare_audits(
            f"audit, {LARGE_LEDGER_COUNT:,} ledgers, {DRIVER_MEMORY} driver", large_audit, small_audit
        ),
        goal=1.2,
        target=1,
        java_mib=large_audit.java_mib,
        python_mib=large_audit.python_mib,
        shuffle_bytes=large_audit.shuffle_bytes,
        spill_bytes=large_audit.spill_bytes,
        note=f"{large_audit.seconds:.0f} s; time grows as ledgers to the power of "
        f"{_growth_exponent(small_audit, large_audit):.2f}, "
        f"without what is fixed {_growth_exponent(small_audit, large_audit, FIXED_STAGES):.2f}; "
        f"{large_audit.unequal_count / large_audit.replicas:.3%} of {large_audit.replicas:,} replicas "
        "take the slow path; "
        f"the join shuffles {join_stage.shuffle_bytes / large_audit.replicas / 2:.1f} bytes "
        "for each replica of a side (asked: at most 30)",
    )
    for stage in sorted(large_audit.stages.values(), key=lambda stage_costs: -stage_costs.seconds)[
        :MAX_STAGES_SHOWN
    ]:
        yield replace(
            _compare_audits(f"  of it {stage.name}", large_audit, small_audit, stage.name),
            goal=1.2 if stage is join_stage else None,
            shuffle_bytes=stage.shuffle_bytes,
            spill_bytes=stage.spill_bytes,
        )
    yield from _measure_other_paths(large_audit)
    default_join, large_driver_join = (
        large_audit.join_costs[DEFAULT_DRIVER_JOIN],
        large_audit.join_costs[LARGE_DRIVER_JOIN],
    )
    yield Line(
        f"  its join again, {DRIVER_MEMORY} driver",
        LARGE_LEDGER_COUNT,
        "ledgers",
        default_join.seconds,
        f"{LARGE_DRIVER_JOIN.memory} driver",
        LARGE_LEDGER_COUNT,
        large_driver_join.seconds,
        most=True,
        goal=1.3,
        java_mib=default_join.java_mib,
        spill_bytes=default_join.spill_bytes,
        note=f"{default_join.seconds:.1f} and {large_driver_join.seconds:.1f} s; "
        f"with {LARGE_DRIVER_JOIN.memory} Java took {large_driver_join.java_mib:,.0f} MiB",
    )
    spark_rows_join = large_audit.join_costs[SPARK_ROWS_JOIN]
    yield Line(
        "  its join again, in blocks",
        LARGE_LEDGER_COUNT,
        "ledgers",
        default_join.seconds,
        "rows",
        LARGE_LEDGER_COUNT,
        spark_rows_join.seconds,
        most=True,
        spill_bytes=spark_rows_join.spill_bytes,
        note=f"{default_join.seconds:.1f} and {spark_rows_join.seconds:.1f} s, "
        f"both in a driver of {DRIVER_MEMORY}",
    )


def _measure_other_paths(plain_audit: AuditCosts) -> Iterator[Line]:
    """Yield lines for audits of a live cluster and for runs on object stores.

    Each audit should take at most 1.2 times as long as the plain audit.
    """
    cluster, object_store_uri = Cluster(LARGE_LEDGER_COUNT, BOOKIES), os.environ.get("BKAUDIT_S3")
    audit_variants = [(FORM_UNFLUSHED, ""), (FORM_ASKED_BOOKIES, ""), ("the run under file://", "file://")]
    audit_variants += [("the run under s3a://", object_store_uri)] if object_store_uri else []
    for name, location_prefix in audit_variants:
        audit_costs = audit_in_process(
            cluster,
            FORM_COLLECTED if location_prefix else name,
            DRIVER_MEMORY,
            location_prefix=location_prefix,
        )
        yield replace(
            Line(
                f"  {name}",
                LARGE_LEDGER_COUNT,
                "ledgers",
                audit_costs.seconds,
                "plain",
                LARGE_LEDGER_COUNT,
                plain_audit.seconds,
                most=True,
            ),
            goal=1.2,
            java_mib=audit_costs.java_mib,
            python_mib=audit_costs.python_mib,
            spill_bytes=audit_costs.spill_bytes,
            note=f"{audit_costs.seconds:.0f} and {plain_audit.seconds:.0f} s",
        )
    if not object_store_uri:
        print("scale: not measured under s3a://: BKAUDIT_S3 names no bucket")


def _compare_audits(
    name: str, large_audit: AuditCosts, reference_audit: AuditCosts, stage: str | None = None
) -> Line:
    """Return a line that compares the time per ledger of two audits, or of one stage of both."""
    own_seconds, rival_seconds = (
        audit.seconds if stage is None else audit.stages[stage].seconds
        for audit in (large_audit, reference_audit)
    )
    rival = f"{reference_audit.ledgers:,}"
    return Line(
        name,
        large_audit.ledgers,
        "ledgers",
        own_seconds,
        rival,
        reference_audit.ledgers,
        rival_seconds,
        most=True,
    )


def _growth_exponent(
    small_audit: AuditCosts, large_audit: AuditCosts, excluded_stages: tuple[str, ...] = ()
) -> float:
    seconds_per_ledger_by_size = [
        sum(stage.seconds for stage in audit_costs.stages.values() if stage.name not in excluded_stages)
        for audit_costs in (small_audit, large_audit)
    ]
    return math.log(seconds_per_ledger_by_size[1] / seconds_per_ledger_by_size[0]) / math.log(
        large_audit.ledgers / small_audit.ledgers
    )
