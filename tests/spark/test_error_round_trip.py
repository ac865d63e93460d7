"""Every error of the package that a task raises is raised on the driver with the same type and content."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import auditor
import auditor.errors
from auditor.errors import AuditorError, DamagedError, RuleError, StoreError, error_in_traceback
from auditor.spark.tasks import restore_task_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = [
    kind for kind in vars(auditor.errors).values() if inspect.isclass(kind) and issubclass(kind, AuditorError)
]
WORKER = {"PYTHON_WORKER_FACTORY_SECRET": "x"}
MESSAGE = 'a message: of "two"\nlines, with \N{EURO SIGN}'


def sample(kind: type[AuditorError]) -> AuditorError:
    """Return an error with a different argument for each parameter."""
    if kind.__init__ is Exception.__init__:
        return kind(MESSAGE)
    parameters = [*inspect.signature(kind.__init__).parameters.values()][1:]
    values: dict[str, Any] = {"offset": 7, "value": None}
    return kind(*(values.get(parameter.name, f"{parameter.name} {MESSAGE}") for parameter in parameters))


def state(error: AuditorError) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if name != "_facts"}


def traceback_of(error: BaseException) -> str:
    try:
        raise error
    except type(error):
        return traceback.format_exc()


def test_all_auditor_errors_are_defined_in_errors_module() -> None:
    # A process that has not imported a module knows none of its errors: a task's would arrive as a bug.
    for module in pkgutil.walk_packages(auditor.__path__, "auditor."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def walk_subclasses(kind: type[AuditorError]) -> Iterator[type[AuditorError]]:
        yield kind
        for child in kind.__subclasses__():
            if child.__module__.startswith("auditor."):  # tests beside this one define errors of their own
                yield from walk_subclasses(child)

    assert {kind.__module__ for kind in walk_subclasses(AuditorError)} == {"auditor.errors"}
    assert {*walk_subclasses(AuditorError)} == {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_read_back_from_its_traceback(
    kind: type[AuditorError], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sample(kind)
    for name, value in WORKER.items():
        monkeypatch.setenv(name, value)
    text = f"org.apache.spark.api.python.PythonException: {traceback_of(error)}\n\tat org.apache.spark.X\n"
    restored_error = error_in_traceback(text)
    assert type(restored_error) is kind
    assert (str(restored_error), restored_error.args, state(restored_error)) == (
        str(error),
        error.args,
        state(error),
    )


def test_error_with_only_a_message_is_restored_without_note() -> None:
    restored_error = error_in_traceback(
        f"org.apache.spark.X: {traceback_of(StoreError('gone: x'))}\n\tat org.a.b\n"
    )
    assert (type(restored_error), str(restored_error)) == (StoreError, "gone: x")
    assert error_in_traceback(traceback_of(DamagedError("a", "b"))) is None


def test_driver_traceback_has_no_auditor_error_note() -> None:
    assert traceback_of(StoreError("gone")).endswith("\nauditor.errors.StoreError: gone\n")


def test_error_that_caused_another_error_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WORKER.items():
        monkeypatch.setenv(name, value)
    bug = KeyError("x")
    bug.__cause__ = StoreError("gone")
    assert error_in_traceback(traceback_of(bug)) is None


@pytest.mark.parametrize(
    "line", ["", "{", "[]", '{"type": "StoreError"}', '{"type": "int", "arguments": [1]}']
)
def test_malformed_note_line_is_ignored(line: str) -> None:
    assert error_in_traceback(f"Traceback (most recent call last):\nauditor error: {line}\n") is None


@pytest.mark.parametrize(
    "error",
    [
        DamagedError("/l/1.sst", "cut\nthere", 7),
        DamagedError("/l/1.sst", "cut", offset=0),
        RuleError("metadata", "quorum-invalid", "too large", None),
        StoreError(MESSAGE),
    ],
)
def test_task_error_is_restored_on_driver(spark: SparkSession, error: AuditorError) -> None:
    kind, (arguments, options) = type(error), error._creation_arguments

    def fail(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise kind(*arguments, **options)

    with pytest.raises(kind) as raised, restore_task_errors():
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert (str(raised.value), state(raised.value)) == (str(error), state(error))
