"""Rounds of audits: one process, one Spark session, one cluster, a run of its own for each round.

    a round     is an audit into a new directory beside the others; or, where the round before broke off and
                may still be gone on with, into that one
    it fails    where a store, a file or a disk is away, or another audit of the cluster runs: the round has
                that as its status, and the next one comes sooner, then less and less soon
    it ends all where Spark is gone, where the first round is asked something invalid, or by a bug
    `Stop`      is raised before a table is made, once ``stop`` is set: what has landed stays, for whoever
                audits the same within --resume-within

Rounds never overlap: each holds the lock of its cluster (`auditor.audit.lock`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Event

from auditor.audit.audit import Audit
from auditor.errors import AuditorError, JavaMissingError, LockedError, SparkError, UsageError
from auditor.model.progress import Progress
from auditor.model.report import Report
from auditor.model.run_facts import REPORT
from auditor.runs.directory import RunDirectory
from auditor.sources.file_systems import run_files
from auditor.spark.types import SparkSession

FIRST_RETRY_S = 30.0
"""After a round that failed; twice as long after each that fails again, never longer than the interval."""


class Stop(KeyboardInterrupt):
    """The rounds were asked to end while one of them ran."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: into which run, how long, and its report, or the error that it failed with.

    ``wait`` is how many seconds lie between its begin and the next round's, where it does not take longer.
    """

    number: int
    run: str
    seconds: float
    report: Report | None
    error: AuditorError | OSError | None
    wait: float


class StoppableProgress:
    """The progress of an audit that ends before the next table once ``stop`` is set."""

    def __init__(self, stop: Event, progress: Progress) -> None:
        self._stop = stop
        self._progress = progress

    def stage(self, name: str, total: int | None = None) -> None:
        """The next stage begins.

        Raises:
            Stop: it does not.
        """
        if self._stop.is_set():
            raise Stop
        self._progress.stage(name, total)

    def expect(self, more: int) -> None:
        """There is so much more of the stage to do."""
        self._progress.expect(more)

    def advance(self, done: int) -> None:
        """So much more of the stage is done."""
        self._progress.advance(done)


def rounds(
    audit: Callable[[str], Audit],
    place: Callable[[], str],
    interval: float,
    stop: Event,
    spark: SparkSession,
    progress: Callable[[], AbstractContextManager[Progress]],
) -> Iterator[Round]:
    """Audit every ``interval`` seconds until ``stop`` is set.

    ``place`` names the directory of a round, ``audit`` is the audit into it, ``progress`` is shown while it
    runs. A round that takes longer than the interval leaves the beats out that it misses.

    Raises:
        Stop: ``stop`` was set during a round; what it has landed stays.
        UsageError: of the first round.
        SparkError, JavaMissingError: of any: the session is gone.
    """
    number = failures = 0
    unfinished: str | None = None
    while not stop.is_set():
        began = time.monotonic()
        number, out = number + 1, place()
        if unfinished is not None and unfinished != out:
            _remove(unfinished)  # too old to be gone on with, and nobody else knows of it
        with progress() as shown:
            report, error = _audit(audit(out), spark, StoppableProgress(stop, shown), first=number == 1)
        unfinished = out if error is not None else None
        failures = failures + 1 if error is not None else 0
        wait = interval if error is None else min(interval, FIRST_RETRY_S * 2 ** min(failures - 1, 20))
        yield Round(number, out, time.monotonic() - began, report, error, wait)
        stop.wait(wait - (time.monotonic() - began) % wait)


def _audit(
    audit: Audit, spark: SparkSession, progress: Progress, first: bool
) -> tuple[Report | None, AuditorError | OSError | None]:
    try:
        return audit.run(spark, progress), None
    except (SparkError, JavaMissingError):
        raise
    except LockedError as error:
        return None, error
    except UsageError as error:
        if first:
            raise
        return None, error
    except (AuditorError, OSError) as error:
        return None, error


def _remove(run: str) -> None:
    """Take away what a round left that broke off."""
    from pyarrow import fs

    files, base = run_files(run)
    if files.get_file_info(base).type == fs.FileType.Directory and not RunDirectory(run).exists(REPORT):
        files.delete_dir(base)
