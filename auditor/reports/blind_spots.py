"""What a run could not have found, and why: no finding there means nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from auditor.checks import ALL, Need
from auditor.checks.needs import Lack, Sight, lacks
from auditor.model.report import Report

LEFT_OUT = "left out by --checks, --skip-checks or the file of --check-settings"
"""Why checks did not run."""


@cache
def checks_that_need(*needs: Need) -> tuple[str, ...]:
    """The ids of the checks that cannot do without any of some things, in the order of the catalogue.

    >>> print(*checks_that_need(Need.TIMES)[:5])
    mark-directory-empty lock-without-mark server-check-overdue index-incomplete recovery-stuck
    """
    return tuple(check.id for check in ALL if check.all_needs & {*needs})


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """Checks that saw nothing of what ``where`` names, and why; an empty ``where`` means nothing at all.

    Where it is not ``is_known``, they may have seen it. Where they were ``left_out``, they did not run.
    """

    ids: tuple[str, ...]
    why: str
    where: str = ""
    is_known: bool = True
    left_out: bool = False

    @property
    def sentence(self) -> str:
        """What it is, without its checks."""
        if self.left_out:
            return f"not run: {self.why}"
        if not self.is_known:
            return f"not known: {self.why}"
        return f"nothing {f'of {self.where}' if self.where else 'at all'}: {self.why}"


def what_was_seen(spot: BlindSpot) -> str:
    """What checks saw, after their name.

    >>> what_was_seen(BlindSpot(("entry-lost",), "no bookie was read"))
    'saw nothing at all: no bookie was read'
    """
    return spot.sentence if spot.left_out else f"saw {spot.sentence}"


def blind_spots(sight: Sight) -> list[BlindSpot]:
    """The same by reason, each with the checks that it concerns; first the checks that did not run."""
    by_lack: dict[Lack, list[Need]] = {}
    for need, lack in lacks(sight).items():
        by_lack.setdefault(lack, []).append(need)
    spots = [
        BlindSpot(checks_that_need(*needs), lack.why, lack.where, lack.is_known)
        for lack, needs in by_lack.items()
    ]
    if sight.not_run:
        spots.insert(0, BlindSpot(sight.not_run, LEFT_OUT, left_out=True))
    return [spot for spot in spots if spot.ids]


def blind_checks(report: Report) -> Mapping[str, BlindSpot]:
    """Of each check that did not see all it looks at, the first reason; others found all that there was."""
    first: dict[str, BlindSpot] = {}
    for spot in blind_spots(Sight.of(report)):
        for id in spot.ids:
            first.setdefault(id, spot)
    return first


def not_run_sentence(report: Report) -> str | None:
    """How many checks did not run; None if all did."""
    count = len(report.run.not_run)
    return f"{count:,} of {len(ALL):,} checks: {LEFT_OUT}" if count else None


def saw_nothing(report: Report) -> tuple[str, ...]:
    """The ids of the checks that saw nothing at all, in the order of the catalogue."""
    spots = blind_checks(report)
    return tuple(
        check.id for check in ALL if (spot := spots.get(check.id)) and spot.is_known and not spot.where
    )


def blind_sentence(report: Report) -> str | None:
    """How many of the checks that ran saw nothing; None where each saw something."""
    unknown = sum(not spot.is_known for spot in blind_checks(report).values())
    count = len({*saw_nothing(report)} - {*report.run.not_run})
    parts = [f"{count:,} of {len(ALL):,} checks saw nothing"] if count else []
    parts += [f"of {unknown:,} checks it is not known whether they saw anything"] if unknown else []
    return "; ".join(parts) or None
