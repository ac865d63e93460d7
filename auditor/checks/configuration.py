"""The checks that an audit runs and their constants, from options and a settings file.

    checks = ["entry-lost", "below-ack-quorum"]       only these run
    skip_checks = ["mark-stuck"]                      these do not run
    [constants]
    stuck_hours = 48

``--checks`` overrides the key ``checks`` of the file, and ``--skip-checks`` overrides ``skip_checks``. A
run that skips checks is incomplete, because it proves nothing about the faults that these checks find. The
gate decides whether bkaudit shows a command that writes. A finding can place a hold, which forbids actions.
The gate refuses actions that the holds of a skipped check could forbid (`kinds_without_holds`). If a constant
of a check is less careful than its default, the gate treats the check like a skipped one.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from auditor.checks import ALL_CHECKS, CHECK_BY_ID
from auditor.errors import UsageError
from auditor.model.check_settings import (
    CheckConstant,
    CheckSettings,
    ChosenChecks,
    constants,
    default_value,
    suggest_name,
)
from auditor.model.holds import ActionKind
from auditor.model.options import AuditOptions
from auditor.sources.regular_file import read_toml

_FILE_KEYS = ("checks", "skip_checks", "constants")


@dataclass(frozen=True, slots=True)
class CheckConfiguration:
    """The chosen checks and their constants.

    ``not_run`` has the ids of the checks that do not run, in the order of `ALL_CHECKS`.
    """

    settings: CheckSettings = field(default_factory=CheckSettings)
    not_run: tuple[str, ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """Return the configuration as a JSON object.

        An audit resumes an interrupted run only if both runs have equal configurations.
        """
        return {"not_run": list(self.not_run), "constants": asdict(self.settings)}

    @property
    def checks_without_holds(self) -> tuple[str, ...]:
        """Return the ids of the checks whose holds (bans on actions) may be missing from the run.

        These are skipped checks, and checks with a constant that is less careful than its default.
        """
        loosened_constants = {*self.settings.find_loose_constants()}
        return tuple(
            check.id
            for check in ALL_CHECKS
            if check.id in self.not_run or loosened_constants & {*check.settings}
        )

    def facts(self) -> ChosenChecks:
        """Return the configuration for the report."""
        constant_rows = [
            CheckConstant(
                name=name,
                value=getattr(self.settings, name),
                default=default_value(name),
                unit=constant.unit,
                reason=constant.reason,
            )
            for name, constant in constants().items()
        ]
        return ChosenChecks(
            not_run=list(self.not_run), unheld=list(self.checks_without_holds), constants=constant_rows
        )


def read_check_configuration(options: AuditOptions) -> CheckConfiguration:
    """Return the checks that run and their constants, from the options and the settings file, if any.

    Raises:
        UsageError: the file is unreadable or is not TOML. A key, check, constant or value in the file is
            wrong. No check remains to run. The message names the wrong part.
    """
    file_path = options.check_settings
    file_values: Mapping[str, Any] = {} if file_path is None else read_toml(file_path)
    for file_key in file_values:
        if file_key not in _FILE_KEYS:
            raise UsageError(f"{file_path}: {file_key}: no such key; {suggest_name(file_key, _FILE_KEYS)}")
    constant_values = file_values.get("constants", {})
    if not isinstance(constant_values, dict):
        raise UsageError(f"{file_path}: constants: {constant_values!r} is not a TOML table")
    settings = CheckSettings.from_values(constant_values, f"{file_path}: constants")
    chosen_ids = {*_parse_check_ids(options.checks, "--checks")} or _read_file_ids(
        file_values, "checks", file_path
    )
    skipped_ids = {*_parse_check_ids(options.skip_checks, "--skip-checks")} or _read_file_ids(
        file_values, "skip_checks", file_path
    )
    not_run = tuple(
        check.id
        for check in ALL_CHECKS
        if (chosen_ids and check.id not in chosen_ids) or check.id in skipped_ids
    )
    if len(not_run) == len(ALL_CHECKS):
        raise UsageError("checks: every selected check is also skipped, so no check remains")
    return CheckConfiguration(settings, not_run)


def kinds_without_holds(ids: Collection[str]) -> dict[ActionKind, tuple[str, ...]]:
    """Return, for each kind of action, the checks in ``ids`` whose holds (bans) could forbid the action.

    >>> kinds_without_holds(["index-incomplete", "mark-stuck"])[ActionKind.STOP]
    ('index-incomplete',)
    """
    ids_by_kind: dict[ActionKind, tuple[str, ...]] = {}
    for check in ALL_CHECKS:
        if check.id in ids:
            for action_kind in dict.fromkeys(kind for hold_rule in check.holds for kind in hold_rule.forbids):
                ids_by_kind[action_kind] = (*ids_by_kind.get(action_kind, ()), check.id)
    return ids_by_kind


def unknown_check(name: str) -> UsageError:
    """Return the error for a name that is neither a present nor a former id of a check.

    >>> print(unknown_check("entry-los"))
    'entry-los' is not a check; did you mean entry-lost?
    """
    similar_ids = difflib.get_close_matches(name, CHECK_BY_ID, n=1)
    hint = f"did you mean {similar_ids[0]}?" if similar_ids else "bkaudit explain check lists all ids"
    return UsageError(f"{name!r} is not a check; {hint}")


def _read_file_ids(file_values: Mapping[str, Any], file_key: str, file_path: str | None) -> set[str]:
    """Return the check ids under a key of the settings file, given as a string or a list of strings."""
    id_texts = file_values.get(file_key, [])
    id_texts = [id_texts] if isinstance(id_texts, str) else id_texts
    if not isinstance(id_texts, list) or not all(isinstance(id_text, str) for id_text in id_texts):
        raise UsageError(f"{file_path}: {file_key}: {id_texts!r} is neither a string nor a list of strings")
    return {*_parse_check_ids(id_texts, f"{file_path}: {file_key}")}


def _parse_check_ids(id_texts: str | Sequence[str], option_name: str) -> Iterator[str]:
    """Yield the present id of each check that ``id_texts`` names.

    The texts contain present or former ids, separated by commas.
    """
    for id_text in [id_texts] if isinstance(id_texts, str) else id_texts:
        for name in (trimmed_name.strip() for trimmed_name in id_text.split(",")):
            if name not in CHECK_BY_ID:
                raise UsageError(f"{option_name}: {unknown_check(name)}")
            yield CHECK_BY_ID[name].id
