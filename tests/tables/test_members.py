"""Members of ensembles: counts taken from files equal the counts taken one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.spark import query_plans
from auditor.spark.execution import Execution
from auditor.spark.table_files import TableFiles
from auditor.tables.members import MEMBERS, members
from tests.tables.files import IN_DRIVER, write_table_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLICA = st.fixed_dictionaries(
    {
        "bookie_id": st.sampled_from(["a:1", "b:1", "c:1", "d:1"]),
        "groups": st.sampled_from([b"", b"x" * 24, None]),
        "depends": st.booleans(),
    }
)
REPLICAS = st.lists(st.one_of(st.none(), st.lists(REPLICA, max_size=4)), max_size=12)


def table(replicas: Sequence[list[dict[str, Any]] | None], place: Path) -> TableFiles:
    return write_table_files(
        [
            {"ledger_id": ledger_id, "replicas": members_of_ledger}
            for ledger_id, members_of_ledger in enumerate(replicas)
        ],
        LEDGERS,
        place,
    )


def count_one_by_one(replicas: Sequence[list[dict[str, Any]] | None]) -> dict[str, tuple[int, ...]]:
    counts, depending, holding = Counter[str](), Counter[str](), Counter[str]()
    for member in (replica for ledger in replicas for replica in ledger or ()):
        counts[member["bookie_id"]] += 1
        depending[member["bookie_id"]] += member["depends"]
        holding[member["bookie_id"]] += bool(member["groups"])
    return {name: (count, depending[name], holding[name]) for name, count in counts.items()}


@given(replicas=REPLICAS)
def test_member_counts_equal_one_by_one_counts(
    tmp_path_factory: Any, replicas: list[list[dict[str, Any]] | None]
) -> None:
    counts = members(IN_DRIVER, table(replicas, tmp_path_factory.mktemp("t") / "ledgers"))
    assert counts.schema == MEMBERS
    assert {row[0]: row[1:] for row in zip(*counts.to_pydict().values(), strict=True)} == count_one_by_one(
        replicas
    )


def test_tasks_and_driver_count_members_equally(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = {"groups": b"x" * 24, "depends": True}
    usual = [{**member, "bookie_id": "a:1"}, {**member, "bookie_id": "b:1", "groups": b"", "depends": False}]
    replicas = [usual, None, [], usual[:1], [*usual, {**member, "bookie_id": "c:1"}]]
    files = table(replicas, tmp_path / "ledgers")
    counts = members(IN_DRIVER, files)
    monkeypatch.setattr(query_plans, "SMALL_BYTES", -1)
    assert members(Execution(spark), files).sort_by("bookie_id") == counts.sort_by("bookie_id")
