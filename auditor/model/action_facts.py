"""Facts in report.json about the actions that a run advises, and about its holds, which forbid actions."""

from typing import Annotated, TypedDict

from auditor.model.finding_words import CheckId, SeverityWord, UrgencyWord
from auditor.model.holds import ActionKind
from auditor.model.json_shape import Count, SchemaFacet, about


class Action(TypedDict):
    """One instruction in a run's ordered list: an action, and the bookies or ledgers that it operates on.

    ``kind`` is a word of `auditor.model.holds.ActionKind`, or None if the action changes nothing. The first
    bookie is ``bookie_id``. The first ledger is ``scope_id`` and ``ledger_id``, in decimal digits.
    ``bkaudit explain`` accepts this bookie or ledger as its argument.
    """

    kind: Annotated[
        str | None,
        SchemaFacet("enum", (*ActionKind, None)),
        about("kind of the action; null: the action changes nothing"),
    ]
    text: Annotated[str, about("the instruction, with its objects")]
    checks: Annotated[list[CheckId], about("the checks whose findings ask for the action")]
    urgency: UrgencyWord
    severity: Annotated[SeverityWord, about("worst severity of the findings that ask for the action")]
    count: Annotated[Count, about("number of findings that ask for the action")]
    unsure: Annotated[Count, about("number of unconfirmed findings that ask for the action")]
    bookies: Annotated[list[str], about("all bookies that the action concerns; empty if it concerns ledgers")]
    bookie_id: str | None
    scope_id: str | None
    ledger_id: str | None


class ForbiddenAction(TypedDict):
    """An action that findings ask for but that a hold (a rule) forbids. ``why`` names the holds."""

    kind: Annotated[str, SchemaFacet("enum", (*ActionKind,))]
    objects: Annotated[str, about("the first bookies or ledgers of the action, at most two")]
    why: Annotated[str, about("the holds that forbid the action")]
    way_out: Annotated[
        str, about("the condition that must be met in a later run before the action is allowed")
    ]
    checks: list[CheckId]


class HoldFacts(TypedDict):
    """Numbers of a run's holds. A hold is a rule that forbids an action on an object (table holds).

    ``urgent`` counts the holds that have one of the two highest urgencies and that no suppression accepts.
    While it is above 0, the exit code is above 0 too. ``earlier_run`` is the name of an earlier run whose
    holds still apply in this run. It is None if no earlier run with holds was found.
    """

    total: Count
    urgent: Annotated[
        Count,
        about("number of holds that have one of the two highest urgencies and that no suppression accepts"),
    ]
    carried: Annotated[Count, about("number of holds from an earlier run that have not been lifted")]
    earlier_run: Annotated[
        str | None, about("the earlier run whose holds still apply; null: no such run was found")
    ]
