"""Rounds of audits that are made up: what a failure is, when the next round comes, and how they end."""

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


class Waits(Event):
    """An event for which nobody waits: it keeps how long it would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return self.is_set()


class Made:
    """Audits that end as they are told, one after the other; the last of these again and again."""

    def __init__(self, *ends: BaseException | None, during: Callable[[], object] = lambda: None) -> None:
        self.ends, self.during = list(ends), during
        self.into: list[str] = []

    def __call__(self, out: str) -> Audit:
        self.into.append(out)
        return cast("Audit", _Audit(self.ends.pop(0) if len(self.ends) > 1 else self.ends[0], self, out))


class _Audit:
    def __init__(self, end: BaseException | None, made: Made, out: str) -> None:
        self._end, self._made, self._out = end, made, Path(out)

    def run(self, _: Any, progress: Progress) -> Report:
        progress.table("ledgers")
        (self._out / "tables").mkdir(parents=True, exist_ok=True)
        self._made.during()
        progress.table("marks")
        if self._end is not None:
            raise self._end
        (self._out / "report.json").write_text("{}")
        return report()


@pytest.fixture
def stop() -> Waits:
    return Waits()


def begun(made: Made, stop: Event, place: Callable[[], str], interval: float = HOUR) -> Iterator[Round]:
    return rounds(made, place, interval, stop, cast("Any", None), lambda: nullcontext(SilentProgress()))


def numbered(folder: Path) -> Callable[[], str]:
    names = iter(range(1, 100))
    return lambda: str(folder / f"run-{next(names)}")


def test_a_round_follows_the_other_at_the_interval(stop: Waits, tmp_path: Path) -> None:
    made = Made(None)
    found = begun(made, stop, numbered(tmp_path))
    first, second = next(found), next(found)
    assert [first.number, second.number] == [1, 2]
    assert first.report == second.report == report()
    assert first.error is second.error is None
    assert made.into == [first.run, second.run] == [str(tmp_path / f"run-{number}") for number in (1, 2)]
    assert stop.seconds == [pytest.approx(HOUR, abs=5)]


def test_a_round_that_takes_longer_leaves_beats_out(
    stop: Waits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 25.0, 25.0, 40.0, 40.0, 40.0])
    monkeypatch.setattr("auditor.watch.rounds.time", SimpleNamespace(monotonic=lambda: next(clock)))
    found = begun(Made(None), stop, numbered(tmp_path), interval=10.0)
    assert next(found).seconds == 25.0
    next(found)
    assert stop.seconds == [5.0]


def test_what_is_away_is_a_failed_round_and_the_next_comes_sooner(stop: Waits, tmp_path: Path) -> None:
    away = StoreError("nobody answers")
    found = begun(
        Made(away, away, away, DiskFullError("full"), None, OSError(28, "full")), stop, numbered(tmp_path)
    )
    seen = [next(found) for _ in range(6)]
    assert [each.report is None for each in seen] == [True] * 4 + [False, True]
    assert seen[0].error is away
    waits = [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S, 8 * FIRST_RETRY_S, HOUR, FIRST_RETRY_S]
    assert [each.wait_seconds for each in seen] == waits
    assert stop.seconds == [pytest.approx(each, abs=5) for each in waits[:5]]


def test_no_wait_is_longer_than_the_interval(stop: Waits, tmp_path: Path) -> None:
    found = begun(Made(StoreError("away")), stop, numbered(tmp_path), interval=45.0)
    assert [next(found).wait_seconds for _ in range(60)] == [30.0] + [45.0] * 59


def test_another_audit_of_the_cluster_is_no_reason_to_end(stop: Waits, tmp_path: Path) -> None:
    locked = LockedError("another run of this cluster is already running")
    found = begun(Made(locked, None), stop, numbered(tmp_path))
    assert next(found).error is locked
    assert next(found).error is None


def test_what_is_invalid_ends_the_first_round_and_fails_a_later_one(stop: Waits, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        next(begun(Made(UsageError("no such option")), stop, numbered(tmp_path)))
    found = begun(Made(None, UsageError("suppressions.toml: no reason")), stop, numbered(tmp_path))
    assert next(found).error is None
    assert str(next(found).error) == "suppressions.toml: no reason"


@pytest.mark.parametrize("error", [SparkError("gone"), JavaMissingError("none"), RuntimeError("a bug")])
def test_without_spark_and_by_a_bug_it_ends(error: Exception, stop: Waits, tmp_path: Path) -> None:
    found = begun(Made(None, error), stop, numbered(tmp_path))
    next(found)
    with pytest.raises(type(error)):
        next(found)


def test_a_round_ends_before_its_next_table_and_what_it_has_stays(stop: Waits, tmp_path: Path) -> None:
    with pytest.raises(RoundStopped):
        next(begun(Made(None, during=stop.set), stop, numbered(tmp_path)))
    assert (tmp_path / "run-1" / "tables").is_dir()
    assert not (tmp_path / "run-1" / "report.json").exists()


def test_between_rounds_it_ends_at_once(stop: Waits, tmp_path: Path) -> None:
    found = begun(Made(None), stop, numbered(tmp_path))
    next(found)
    stop.set()
    assert list(found) == []


def test_what_a_failed_round_left_is_gone_on_with_or_goes(stop: Waits, tmp_path: Path) -> None:
    places = iter(["one", "one", "two", "three"])
    made = Made(StoreError("away"), StoreError("away"), None, None)
    found = begun(made, stop, lambda: str(tmp_path / next(places)))
    next(found)
    assert (tmp_path / "one").is_dir()
    next(found)
    assert (tmp_path / "one").is_dir()
    next(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two"]
    next(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["three", "two"]
