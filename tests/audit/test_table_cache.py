"""A run directory is claimed once, resumed only with the same sources and options, and never overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from auditor.audit.run_store import RunStore, run_identity
from auditor.audit.table_cache import TableCache
from auditor.errors import RunError, StoreError
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from auditor.model.run_facts import MANIFEST, REPORT
from auditor.runs.directory import RunDirectory
from auditor.spark.execution import Execution

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("bookie_id", pa.string())])
NESTED = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("port", pa.int32()),
        ("read", pa.bool_()),
        ("since", pa.int64()),
        ("disks", pa.list_(pa.string())),
        ("endpoints", pa.list_(pa.struct([("host", pa.string()), ("groups", pa.binary())]))),
    ]
)


def test_unfinished_run_resumes_only_with_the_same_sources(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "run"))
    assert run.begin_run({"metadata": "a"}) is False
    assert run.begin_run({"metadata": "a"}) is True
    (tmp_path / "run" / "tables").mkdir()
    with pytest.raises(RunError, match="different sources"):
        run.begin_run({"metadata": "b"})


def test_run_without_tables_can_be_restarted_with_other_sources(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "run"))
    run.begin_run({"metadata": "mistyped"})
    assert run.begin_run({"metadata": "right"}) is False
    assert run.begin_run({"metadata": "right"}) is True


def _raise_store_error(begun: bool) -> None:
    assert begun
    raise StoreError("no answer")


def test_a_run_that_fails_before_its_first_table_leaves_no_manifest(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "spark.log").write_text("kept")
    with pytest.raises(StoreError, match="no answer"), run.claim_directory({"metadata": "a"}):
        _raise_store_error(run.exists(MANIFEST))
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["spark.log"]


def test_a_run_that_fails_with_tables_is_resumed(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "run"))
    (tmp_path / "run" / "tables").mkdir(parents=True)
    run.write_json(MANIFEST, {"identity": {"metadata": "a"}})
    with pytest.raises(StoreError), run.claim_directory({"metadata": "a"}):
        _raise_store_error(run.exists("tables"))
    assert run.begin_run({"metadata": "a"}) is True


def _delete_directory(run: RunDirectory, error: Exception | None) -> None:
    """Delete the directory, write a table as an unaware audit does, and raise ``error`` or continue."""
    files, path = run.locate("")
    files.delete_dir(path)
    run.write_table("tables/t", pa.table({"ledger_id": [1]}))
    if error is not None:
        raise error
    run.add_to_manifest({"scan_time": 5})


def test_run_fails_if_its_directory_is_deleted_and_the_next_run_starts_anew(tmp_path: Path) -> None:
    """No run ends as complete if its first tables are gone, whichever error comes first."""
    for error in (None, OSError("no such file"), ValueError("Path does not exist")):
        run = RunDirectory(str(tmp_path / "run"))
        with pytest.raises(RunError, match="was deleted while"), run.claim_directory({"metadata": "a"}):
            _delete_directory(run, error)
        assert run.begin_run({"metadata": "a"}) is False
        assert list(run.read_json(MANIFEST) or {}) == ["identity"]


def test_refused_claim_keeps_the_finished_runs_manifest(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "run"))
    run.write_json(MANIFEST, {"identity": {"metadata": "a"}})
    run.write_json(REPORT, {})
    with pytest.raises(RunError, match="finished run"), run.claim_directory({"metadata": "a"}):
        raise AssertionError("it is not claimed")
    assert run.exists(MANIFEST)


def test_a_finished_run_is_never_written_over(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "run"))
    run.begin_run({"metadata": "a"})
    run.write_json(REPORT, {})
    with pytest.raises(RunError, match="finished run"):
        run.begin_run({"metadata": "a"})


def test_run_directory_accepts_a_file_uri(tmp_path: Path) -> None:
    run = RunDirectory(f"file://{tmp_path}/run")
    run.write_json("x.json", {"a": 1})
    assert run.read_json("x.json") == {"a": 1}
    assert run.locate("tables/x")[1] == f"{tmp_path}/run/tables/x"
    assert run.read_file("x.json").endswith(b"}\n")


def test_unknown_file_system_is_a_run_error() -> None:
    with pytest.raises(RunError, match="nosuch"):
        RunDirectory("nosuch://host/run").exists("tables")


def test_finished_table_is_not_made_again(spark: SparkSession, tmp_path: Path) -> None:
    made_values: list[str] = []

    def make(value: str) -> Any:
        def table() -> DataFrame:
            made_values.append(value)
            return spark.createDataFrame([(value,)], "bookie_id string")

        return table

    for value in ("first", "second"):
        # A new object, as after a crash.
        cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
        rows = [row.bookie_id for row in cache.write_table("t", make(value)).collect()]
        assert rows == ["first"]
    assert made_values == ["first"]
    (tmp_path / "run" / "tables" / "t" / "_SUCCESS").unlink()
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    assert [row.bookie_id for row in cache.write_table("t", make("third")).collect()] == ["third"]


def test_pinned_fact_keeps_its_first_value(spark: SparkSession, tmp_path: Path) -> None:
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    assert [cache.run_store.pin_fact("scan_time", time) for time in (5, 7)] == [5, 5]


def test_driver_rows_are_written_with_their_schema(spark: SparkSession, tmp_path: Path) -> None:
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    assert cache.write_rows("empty", [], SCHEMA).columns == ["bookie_id"]
    rows: list[dict[str, Any]] = [
        {"bookie_id": "bk-a:3181", "port": 3181, "read": True, "since": None, "disks": ["/l1", None],
         "endpoints": [{"host": "10.0.0.1", "groups": b"\x00\xff"}]},
        {"bookie_id": None, "port": None, "read": None, "since": 2**62, "disks": None, "endpoints": []},
    ]  # fmt: skip
    landed = cache.write_rows("nested", rows, NESTED)
    assert [row.asDict(recursive=True) for row in landed.collect()] == rows
    assert cache.run.read("tables/nested").to_pylist() == rows
    files = (tmp_path / "run" / "tables" / "nested").iterdir()
    assert cache.files("nested").size == sum(
        file.stat().st_size for file in files if file.suffix == ".parquet"
    )
    assert cache.files("none").size == 0
    assert [cache.count(name) for name in ("nested", "empty")] == [2, 0]
    with pytest.raises(KeyError):
        cache.count("none")
    assert cache.distinct_values("nested", "bookie_id") == {"bk-a:3181", None}
    unasked = spark.read.parquet(cache.spark_path("tables/nested"))
    assert unasked.schema == landed.schema, "who opens the run later sees the same types"


def test_rows_of_an_interrupted_write_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    for value in ("first", "second"):
        cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
        landed = cache.write_rows("t", [{"bookie_id": value}], SCHEMA)
        assert [row.bookie_id for row in landed.collect()] == ["first"]
    (tmp_path / "run" / "tables" / "t" / "_SUCCESS").unlink()
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    landed = cache.write_rows("t", [{"bookie_id": "third"}], SCHEMA)
    assert [row.bookie_id for row in landed.collect()] == ["third"]


def test_spark_table_is_read_with_the_types_it_was_written_with(spark: SparkSession, tmp_path: Path) -> None:
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    landed = cache.write_table(
        "t", lambda: spark.sql("select 1 as a, array(struct('x' as b, X'00ff' as c)) as d")
    )
    assert landed.schema == spark.read.parquet(cache.spark_path("tables/t")).schema
    assert [row.asDict(recursive=True) for row in landed.collect()] == [
        {"a": 1, "d": [{"b": "x", "c": b"\x00\xff"}]}
    ]


def test_empty_table_keeps_its_columns_and_its_joins_are_optimised_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    ledgers = cache.write_table("ledgers", lambda: spark.range(4, numPartitions=2).toDF("ledger_id"))
    nothing = cache.write_table(
        "none", lambda: ledgers.where("ledger_id > 7").selectExpr("ledger_id", "'x' as at")
    )
    rows = cache.write_rows("rows", [], SCHEMA)
    assert cache.empty_table_names == {"none", "rows"}
    assert nothing.schema == spark.read.parquet(cache.spark_path("tables/none")).schema
    assert nothing.count() == rows.count() == 0
    assert rows.columns == ["bookie_id"]
    joined = ledgers.join(nothing, "ledger_id", "left")
    assert sorted((row.ledger_id, row.at) for row in joined.collect()) == [
        (ledger_id, None) for ledger_id in range(4)
    ]
    assert "Join" not in _optimised(joined)
    assert "Join" in _optimised(ledgers.join(ledgers.where("ledger_id > 1"), "ledger_id", "left"))


def _optimised(table: DataFrame) -> str:
    text: str = table._jdf.queryExecution().optimizedPlan().toString()
    return text


@pytest.mark.parametrize("sizes", [(0, 1, 0, 2), (1, 0, 1), (0, 0), (3,)])
def test_chunk_without_rows_loses_no_later_row(
    spark: SparkSession, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    chunks = [pa.table({"ledger_id": pa.array([7] * size, pa.int64())}) for size in sizes]
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    assert cache.write_table("t", lambda: pa.concat_tables(chunks)).count() == sum(sizes)
    again = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    assert again.write_table("t", lambda: pa.table({})).count() == sum(sizes)


def test_written_table_names_contain_no_dot_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk reads ``run/./findings`` as ``run/findings``; to an object store these are two names."""
    names: list[str] = []
    write = RunDirectory.write_table

    def write_table(run: RunDirectory, name: str, table: pa.Table) -> None:
        names.append(name)
        write(run, name, table)

    monkeypatch.setattr(RunDirectory, "write_table", write_table)
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path / "run"))), SilentProgress())
    cache.write_rows("findings", [{"bookie_id": "a"}], SCHEMA, directory="")
    cache.write_table("members", lambda: pa.table({"bookie_id": ["a"]}))
    assert names == ["findings", "tables/members"]


def test_audit_with_several_owner_stores_resumes_its_own_run(tmp_path: Path) -> None:
    uris = ["pulsar:zk://h1:2181", "pulsar:zk://h1:2181/east"]
    identity = run_identity("audit", "zk://h1/ledgers", [], AuditOptions(owners=uris, owners_complete=uris))
    assert RunDirectory(str(tmp_path)).begin_run(identity) is False
    (tmp_path / "tables").mkdir()
    assert RunDirectory(str(tmp_path)).begin_run(identity) is True
    single = run_identity("audit", "zk://h1/ledgers", [], AuditOptions(owners=uris[:1]))
    with pytest.raises(RunError, match="an unfinished run with different sources or options"):
        RunDirectory(str(tmp_path)).begin_run(single)


def test_tables_of_two_directories_may_have_the_same_name(spark: SparkSession, tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "run"))
    run.begin_run({"metadata": "a"})
    cache = TableCache(Execution(spark), RunStore(run), SilentProgress())
    table = cache.write_rows("placement", [{"bookie_id": "bk1"}], SCHEMA)
    checked = cache.write_rows("placement", [{"bookie_id": "bk2"}], SCHEMA, "tables/checks")
    again = cache.write_rows("placement", [], SCHEMA, "tables/checks")
    assert [[row["bookie_id"] for row in rows.collect()] for rows in (table, checked, again)] == [
        ["bk1"], ["bk2"], ["bk2"],
    ]  # fmt: skip
    assert cache.count("placement") == cache.count("checks/placement") == 1
