"""Only the conductor and the packages next to it run Spark jobs; all others only describe queries."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_house import HOUSE, MODULES, floor_of

pytestmark = pytest.mark.files

JOB_PACKAGES = {"audit", "collect", "compare", "doctor", "spark"}
"""The packages that may run Spark actions; `auditor.spark` has the query of several numbers at once."""

JOB_METHODS = {
    *("collect", "isEmpty", "toArrow", "toLocalIterator", "toPandas", "show", "take"),
    *("foreach", "foreachPartition", "saveAsTable", "insertInto", "checkpoint", "localCheckpoint"),
}
WITHOUT_ARGUMENTS = {"count", "first", "head"}
"""With arguments these are functions of columns, or of something else."""
WRITERS = {"write", "writeTo", "writeStream"}


def actions(source: str) -> Iterator[int]:
    """Yield the lines at which a module that imports Spark runs a job."""
    tree = ast.parse(source)
    if not any(
        (node.module or "").startswith(("pyspark", "auditor.spark"))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    ):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            if node.value.attr in WRITERS:
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            verb, bare = node.func.attr, not node.args and not node.keywords
            if verb in JOB_METHODS or (
                verb in WITHOUT_ARGUMENTS and bare and not is_grouped(node.func.value)
            ):
                yield node.lineno


def is_grouped(receiver: ast.expr) -> bool:
    """Return whether rows are grouped, so that counting them gives a table and runs no job."""
    return (
        isinstance(receiver, ast.Call)
        and isinstance(receiver.func, ast.Attribute)
        and receiver.func.attr == "groupBy"
    )


def test_only_listed_packages_run_spark_jobs() -> None:
    places = [
        f"{module.relative_to(HOUSE)}:{line}"
        for module in MODULES
        if floor_of(module) not in JOB_PACKAGES
        for line in actions(module.read_text("utf-8"))
    ]
    assert places == []


def test_every_listed_package_runs_spark_jobs() -> None:
    packages = {floor_of(module) for module in MODULES if any(actions(module.read_text("utf-8")))}
    assert packages == JOB_PACKAGES


KNOWS_SPARK = "from pyspark.sql import functions as F\n"


@pytest.mark.parametrize(
    "line",
    [
        "rows.collect()",
        "rows.count()",
        "rows.write.parquet(path)",
        "rows.agg(F.max('m')).first()",
        "rows.isEmpty()",
    ],
)
def test_spark_job_call_is_detected(line: str) -> None:
    assert list(actions(KNOWS_SPARK + line)) == [2]


@pytest.mark.parametrize(
    "line",
    [
        "rows.groupBy('m').count()",
        "rows.agg(F.count('*'))",
        "F.first('m')",
        "stream.write(data)",
        "words.count('a')",
    ],
)
def test_call_that_only_describes_a_query_is_no_spark_job(line: str) -> None:
    assert list(actions(KNOWS_SPARK + line)) == []


def test_module_without_spark_import_runs_no_spark_job() -> None:
    assert list(actions("values.collect()")) == []
