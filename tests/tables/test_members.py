"""Who is in ensembles: what is counted in files is what Spark counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.tables.members import MEMBERS, members, members_in_files, members_of

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


def write(replicas: Sequence[list[dict[str, Any]] | None], place: Path) -> Path:
    place.mkdir()
    for number in range(2):
        rows = [{"ledger_id": at, "replicas": each} for at, each in enumerate(replicas[number::2])]
        table = pa.Table.from_pylist(rows, LEDGERS.remove_metadata())
        pq.write_table(table, place / f"part-{number}.parquet", row_group_size=3)
    return place


def one_by_one(replicas: Sequence[list[dict[str, Any]] | None]) -> dict[str, tuple[int, ...]]:
    named, depending, holding = Counter[str](), Counter[str](), Counter[str]()
    for each in (replica for ledger in replicas for replica in ledger or ()):
        named[each["bookie_id"]] += 1
        depending[each["bookie_id"]] += each["depends"]
        holding[each["bookie_id"]] += bool(each["groups"])
    return {name: (count, depending[name], holding[name]) for name, count in named.items()}


@settings(max_examples=100, deadline=None)
@given(replicas=REPLICAS)
def test_members_are_counted_as_one_by_one(
    tmp_path_factory: Any, replicas: list[list[dict[str, Any]] | None]
) -> None:
    place = write(replicas, tmp_path_factory.mktemp("t") / "ledgers")
    sums: dict[str, Counter[str]] = {}
    for batch in members_of(sorted(map(str, place.iterdir()))):
        assert batch.schema == MEMBERS
        for row in batch.to_pylist():
            sums.setdefault(row.pop("bookie_id"), Counter()).update(row)
    found = {name: tuple(row[each] for each in MEMBERS.names[1:]) for name, row in sums.items()}
    assert found == one_by_one(replicas)


def test_spark_counts_the_same_as_tasks_in_files(spark: SparkSession, tmp_path: Path) -> None:
    member = {"groups": b"x" * 24, "depends": True}
    usual = [{**member, "bookie_id": "a:1"}, {**member, "bookie_id": "b:1", "groups": b"", "depends": False}]
    replicas = [usual, None, [], usual[:1], [*usual, {**member, "bookie_id": "c:1"}]]
    place = write(replicas, tmp_path / "ledgers")
    for counts in (members(spark.read.parquet(str(place))), members_in_files(spark, place)):
        assert counts.columns == MEMBERS.names
        assert {row[0]: tuple(row)[1:] for row in counts.collect()} == one_by_one(replicas)
