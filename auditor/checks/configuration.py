"""Which checks of an audit run, and their constants: what options and a settings file say together.

    checks = ["entry-lost", "below-ack-quorum"]       only these run
    skip_checks = ["mark-stuck"]                      of these, all but
    [constants]
    stuck_hours = 48

``--checks`` goes before ``checks`` of the file, and ``--skip-checks`` before ``skip_checks``. A check that
did not run found nothing, and that means nothing: the run is incomplete, and the gate refuses what its holds
could forbid (`kinds_without_holds`). The gate also refuses it if a constant of the check is less careful than
its default.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from auditor.checks import ALL, BY_ID
from auditor.errors import UsageError
from auditor.model.check_settings import (
    CheckConstant,
    ChecksChosen,
    CheckSettings,
    constants,
    default_of,
    suggestion,
)
from auditor.model.holds import ActionKind
from auditor.model.options import AuditOptions
from auditor.sources.regular_file import read_toml

_KEYS = ("checks", "skip_checks", "constants")


@dataclass(frozen=True, slots=True)
class CheckConfiguration:
    """The choice of checks, and their constants.

    ``not_run`` are ids of checks, in the order of the catalogue.
    """

    settings: CheckSettings = field(default_factory=CheckSettings)
    not_run: tuple[str, ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """What a resumed run must have in common with the run that broke off, as JSON has it."""
        return {"not_run": list(self.not_run), "constants": asdict(self.settings)}

    @property
    def unheld(self) -> tuple[str, ...]:
        """Checks whose holds may be missing: they did not run, or a constant of theirs is less careful."""
        loosened = {*self.settings.loosened()}
        return tuple(check.id for check in ALL if check.id in self.not_run or loosened & {*check.settings})

    def facts(self) -> ChecksChosen:
        """The configuration as a report has it."""
        rows = [
            CheckConstant(
                name=name,
                value=getattr(self.settings, name),
                default=default_of(name),
                unit=constant.unit,
                reason=constant.reason,
            )
            for name, constant in constants().items()
        ]
        return ChecksChosen(not_run=list(self.not_run), unheld=list(self.unheld), constants=rows)


def read_check_configuration(options: AuditOptions) -> CheckConfiguration:
    """Return which checks run and with which constants; reads the settings file, if there is one.

    Raises:
        UsageError: a file that cannot be read or is not TOML, an unknown key, check or constant, a bad value,
            or no check is left; the message names it.
    """
    path = options.check_settings
    values: Mapping[str, Any] = {} if path is None else read_toml(path)
    for key in values:
        if key not in _KEYS:
            raise UsageError(f"{path}: {key}: no such key; {suggestion(key, _KEYS)}")
    table = values.get("constants", {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: constants: {table!r} is not a table")
    settings = CheckSettings.from_values(table, f"{path}: constants")
    chosen = {*_ids(options.checks, "--checks")} or _of_file(values, "checks", path)
    skipped = {*_ids(options.skip_checks, "--skip-checks")} or _of_file(values, "skip_checks", path)
    not_run = tuple(check.id for check in ALL if (chosen and check.id not in chosen) or check.id in skipped)
    if len(not_run) == len(ALL):
        raise UsageError("checks: every check that was chosen is skipped too, so that none is left")
    return CheckConfiguration(settings, not_run)


def kinds_without_holds(ids: Collection[str]) -> dict[ActionKind, tuple[str, ...]]:
    """The kinds of action that holds of some checks forbid, each with these checks; for the gate.

    >>> kinds_without_holds(["index-incomplete", "mark-stuck"])[ActionKind.STOP]
    ('index-incomplete',)
    """
    ids_by_kind: dict[ActionKind, tuple[str, ...]] = {}
    for check in ALL:
        if check.id in ids:
            for kind in dict.fromkeys(kind for rule in check.holds for kind in rule.forbids):
                ids_by_kind[kind] = (*ids_by_kind.get(kind, ()), check.id)
    return ids_by_kind


def unknown_check(name: str) -> UsageError:
    """The error for an id that no check has or had.

    >>> print(unknown_check("entry-los"))
    'entry-los' is not a check; did you mean entry-lost?
    """
    near = difflib.get_close_matches(name, BY_ID, n=1)
    hint = f"did you mean {near[0]}?" if near else "bkaudit explain check lists them"
    return UsageError(f"{name!r} is not a check; {hint}")


def _of_file(values: Mapping[str, Any], key: str, path: str | None) -> set[str]:
    """The ids of a key of the file: one text, or a list of them."""
    texts = values.get(key, [])
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{path}: {key}: {texts!r} is neither a string nor a list of strings")
    return {*_ids(texts, f"{path}: {key}")}


def _ids(texts: str | Sequence[str], where: str) -> Iterator[str]:
    """The ids of checks in some texts, each a list with commas; an id that a check once had counts too."""
    for text in [texts] if isinstance(texts, str) else texts:
        for name in (part.strip() for part in text.split(",")):
            if name not in BY_ID:
                raise UsageError(f"{where}: {unknown_check(name)}")
            yield BY_ID[name].id
