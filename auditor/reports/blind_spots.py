"""Blind spots of a run: checks that had no input or did not run, with the reason.

If a check had no input for an object, the absence of findings proves nothing about that object.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from auditor.checks import ALL_CHECKS, Need
from auditor.checks.needs import AvailableInputs, MissingInput, unmet_needs
from auditor.model.report import Report

EXCLUDED_CHECKS_REASON = "excluded by --checks, --skip-checks or the --check-settings file"
"""Reason why checks did not run that an option excludes."""


@cache
def checks_that_need(*needs: Need) -> tuple[str, ...]:
    """Return the ids of the checks that need at least one of the inputs ``needs``, in the catalogue's order.

    >>> print(*checks_that_need(Need.TIMES)[:5])
    mark-directory-empty lock-without-mark server-check-overdue index-incomplete recovery-stuck
    """
    return tuple(check.id for check in ALL_CHECKS if check.all_needs & {*needs})


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """Checks that lacked input for the same reason.

    ``objects_text`` names the objects for which the checks had no input. If it is empty, the checks had no
    input at all. If ``is_known`` is False, it is unknown whether the checks had input. If ``is_excluded``
    is True, an option excluded the checks, so that they did not run.
    """

    ids: tuple[str, ...]
    reason: str
    objects_text: str = ""
    is_known: bool = True
    is_excluded: bool = False

    @property
    def sentence(self) -> str:
        """Return the reason why the checks lacked input or did not run, as a sentence without check ids."""
        if self.is_excluded:
            return f"not run: {self.reason}"
        if not self.is_known:
            return f"unknown whether skipped: {self.reason}"
        return f"{f'for {self.objects_text}: ' if self.objects_text else ''}{self.reason}"


def skip_sentence(blind_spot: BlindSpot) -> str:
    """Return the text that follows the ids of a blind spot's checks (those that lacked input) in a sentence.

    >>> skip_sentence(BlindSpot(("entry-lost",), "no bookie was read"))
    'skipped: no bookie was read'
    >>> skip_sentence(BlindSpot(("entry-lost",), "its index cannot be read", "bk-1:3181"))
    'skipped for bk-1:3181: its index cannot be read'
    """
    if blind_spot.is_excluded or not blind_spot.is_known:
        return blind_spot.sentence
    return f"skipped{' ' if blind_spot.objects_text else ': '}{blind_spot.sentence}"


def make_blind_spots(inputs: AvailableInputs) -> list[BlindSpot]:
    """Return the blind spots of a run, one for each reason: checks that lacked input or did not run.

    If an option excluded checks, the blind spot of these checks comes first. ``inputs`` has the inputs of
    the run.
    """
    needs_by_input: dict[MissingInput, list[Need]] = {}
    for need, missing_input in unmet_needs(inputs).items():
        needs_by_input.setdefault(missing_input, []).append(need)
    spots = [
        BlindSpot(
            checks_that_need(*needs),
            missing_input.reason,
            missing_input.affected_part,
            missing_input.is_known,
        )
        for missing_input, needs in needs_by_input.items()
    ]
    if inputs.skipped_checks:
        spots.insert(0, BlindSpot(inputs.skipped_checks, EXCLUDED_CHECKS_REASON, is_excluded=True))
    return [blind_spot for blind_spot in spots if blind_spot.ids]


def find_blind_spots(report: Report) -> Mapping[str, BlindSpot]:
    """Return the first `BlindSpot` of each check that lacked input or did not run, by check id."""
    spots_by_check: dict[str, BlindSpot] = {}
    for blind_spot in make_blind_spots(AvailableInputs.from_report(report)):
        for id in blind_spot.ids:
            spots_by_check.setdefault(id, blind_spot)
    return spots_by_check


def not_run_sentence(report: Report) -> str | None:
    """Return a sentence on how many checks did not run and why. None if all checks ran."""
    count = len(report.run.checks_not_run)
    return f"{count:,} of {len(ALL_CHECKS):,} checks: {EXCLUDED_CHECKS_REASON}" if count else None


def checks_without_input(report: Report) -> tuple[str, ...]:
    """Return the ids of the checks that had no input at all, in the order of the catalogue."""
    spots_by_check = find_blind_spots(report)
    return tuple(
        check.id
        for check in ALL_CHECKS
        if (blind_spot := spots_by_check.get(check.id))
        and blind_spot.is_known
        and not blind_spot.objects_text
    )


def no_input_sentence(report: Report) -> str | None:
    """Return a sentence on how many checks had no input. None if every check had some input."""
    unknown_count = sum(not blind_spot.is_known for blind_spot in find_blind_spots(report).values())
    count = len({*checks_without_input(report)} - {*report.run.checks_not_run})
    parts = [f"{count:,} of {len(ALL_CHECKS):,} checks had no input"] if count else []
    parts += [f"it is unknown whether {unknown_count:,} checks had input"] if unknown_count else []
    return "; ".join(parts) or None
