"""Rounds of fake audits: which failures count, when the next round starts, and how the rounds end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auditor.audit.audit import Audit
from auditor.errors import DiskFullError, JavaMissingError, LockedError, SparkError, StoreError, UsageError
from auditor.model.progress import Progress, SilentProgress
from auditor.model.report import Report
from auditor.watch.rounds import FIRST_RETRY_S, Round, RoundStopped, rounds
from tests.reports.samples import report

HOUR = 3600.0


class FakeEvent(Event):
    """An event whose waits return at once; it records how long each would have lasted."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return self.is_set()


class FakeAudits:
    """Audits that end as specified, one after the other; the last end is repeated."""

    def __init__(self, *ends: BaseException | None, during: Callable[[], object] = lambda: None) -> None:
        self.ends, self.during = list(ends), during
        self.into: list[str] = []

    def __call__(self, out: str) -> Audit:
        self.into.append(out)
        return cast("Audit", _Audit(self.ends.pop(0) if len(self.ends) > 1 else self.ends[0], self, out))


class _Audit:
    def __init__(self, end: BaseException | None, audits: FakeAudits, out: str) -> None:
        self._end, self._audits, self._out = end, audits, Path(out)

    def run(self, _: Any, progress: Progress) -> Report:
        progress.table("ledgers")
        (self._out / "tables").mkdir(parents=True, exist_ok=True)
        self._audits.during()
        progress.table("marks")
        if self._end is not None:
            raise self._end
        (self._out / "report.json").write_text("{}")
        return report()


@pytest.fixture
def stop() -> FakeEvent:
    return FakeEvent()


def start_rounds(
    audits: FakeAudits, stop: Event, place: Callable[[], str], interval: float = HOUR
) -> Iterator[Round]:
    return rounds(audits, place, interval, stop, cast("Any", None), lambda: nullcontext(SilentProgress()))


def numbered_places(folder: Path) -> Callable[[], str]:
    names = iter(range(1, 100))
    return lambda: str(folder / f"run-{next(names)}")


def test_rounds_start_at_the_interval(stop: FakeEvent, tmp_path: Path) -> None:
    audits = FakeAudits(None)
    results = start_rounds(audits, stop, numbered_places(tmp_path))
    first, second = next(results), next(results)
    assert [first.number, second.number] == [1, 2]
    assert first.report == second.report == report()
    assert first.error is second.error is None
    assert audits.into == [first.run, second.run] == [str(tmp_path / f"run-{number}") for number in (1, 2)]
    assert stop.seconds == [pytest.approx(HOUR, abs=5)]


def test_round_longer_than_interval_skips_start_times(
    stop: FakeEvent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 25.0, 25.0, 40.0, 40.0, 40.0])
    monkeypatch.setattr("auditor.watch.rounds.time", SimpleNamespace(monotonic=lambda: next(clock)))
    results = start_rounds(FakeAudits(None), stop, numbered_places(tmp_path), interval=10.0)
    assert next(results).seconds == 25.0
    next(results)
    assert stop.seconds == [5.0]


def test_unavailable_store_fails_round_and_next_round_starts_sooner(stop: FakeEvent, tmp_path: Path) -> None:
    away = StoreError("nobody answers")
    results = start_rounds(
        FakeAudits(away, away, away, DiskFullError("full"), None, OSError(28, "full")),
        stop,
        numbered_places(tmp_path),
    )
    outcomes = [next(results) for _ in range(6)]
    assert [value.report is None for value in outcomes] == [True] * 4 + [False, True]
    assert outcomes[0].error is away
    waits = [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S, 8 * FIRST_RETRY_S, HOUR, FIRST_RETRY_S]
    assert [value.wait_seconds for value in outcomes] == waits
    assert stop.seconds == [pytest.approx(value, abs=5) for value in waits[:5]]


def test_no_wait_is_longer_than_the_interval(stop: FakeEvent, tmp_path: Path) -> None:
    results = start_rounds(FakeAudits(StoreError("away")), stop, numbered_places(tmp_path), interval=45.0)
    assert [next(results).wait_seconds for _ in range(60)] == [30.0] + [45.0] * 59


def test_lock_of_another_audit_fails_the_round_but_not_the_watch(stop: FakeEvent, tmp_path: Path) -> None:
    locked = LockedError("another run of this cluster is already running")
    results = start_rounds(FakeAudits(locked, None), stop, numbered_places(tmp_path))
    assert next(results).error is locked
    assert next(results).error is None


def test_invalid_usage_ends_first_round_but_only_fails_a_later_round(stop: FakeEvent, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        next(start_rounds(FakeAudits(UsageError("no such option")), stop, numbered_places(tmp_path)))
    results = start_rounds(
        FakeAudits(None, UsageError("suppressions.toml: no reason")), stop, numbered_places(tmp_path)
    )
    assert next(results).error is None
    assert str(next(results).error) == "suppressions.toml: no reason"


@pytest.mark.parametrize("error", [SparkError("gone"), JavaMissingError("none"), RuntimeError("a bug")])
def test_spark_error_or_bug_ends_the_rounds(error: Exception, stop: FakeEvent, tmp_path: Path) -> None:
    results = start_rounds(FakeAudits(None, error), stop, numbered_places(tmp_path))
    next(results)
    with pytest.raises(type(error)):
        next(results)


def test_stopped_round_ends_before_next_table_and_keeps_its_tables(stop: FakeEvent, tmp_path: Path) -> None:
    with pytest.raises(RoundStopped):
        next(start_rounds(FakeAudits(None, during=stop.set), stop, numbered_places(tmp_path)))
    assert (tmp_path / "run-1" / "tables").is_dir()
    assert not (tmp_path / "run-1" / "report.json").exists()


def test_stop_between_rounds_ends_the_rounds(stop: FakeEvent, tmp_path: Path) -> None:
    results = start_rounds(FakeAudits(None), stop, numbered_places(tmp_path))
    next(results)
    stop.set()
    assert list(results) == []


def test_directory_of_failed_round_is_reused_or_removed(stop: FakeEvent, tmp_path: Path) -> None:
    places = iter(["one", "one", "two", "three"])
    audits = FakeAudits(StoreError("away"), StoreError("away"), None, None)
    results = start_rounds(audits, stop, lambda: str(tmp_path / next(places)))
    next(results)
    assert (tmp_path / "one").is_dir()
    next(results)
    assert (tmp_path / "one").is_dir()
    next(results)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two"]
    next(results)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["three", "two"]
