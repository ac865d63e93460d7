"""Sentences on the actions that a report recommends, in order.

The first screen shows the first action. `bkaudit explain run` shows all actions.
"""

from collections.abc import Sequence

from auditor.model.action_facts import Action, ForbiddenAction
from auditor.model.amounts import plural
from auditor.model.finding import Confidence, Finding, Severity, Urgency
from auditor.model.report import Report
from auditor.model.run_facts import Step
from auditor.reports.finding_text import command_for
from auditor.reports.plain_text import fold_text, labelled_lines

LABEL_COLUMNS = 15
FIRST_ACTION_LABEL, ALL_ACTIONS_LABEL = "first action", "all actions"


def first_action_lines(report: Report, run: str, width: int) -> list[str]:
    """Return the lines of the first action and of the command that explains it.

    Args:
        report: The report of a run.
        run: Name of the run in commands.
        width: Columns of the text. The command is never folded.

    Returns:
        The lines. Empty if nothing has to be done.
    """
    if (action := report.first_action) is None:
        return []
    text = f"{action['text']}{unconfirmed_note(action)}"
    command = explain_command(action["checks"][0], action, run)
    lines = labelled_lines(FIRST_ACTION_LABEL, text, width, columns=LABEL_COLUMNS)
    return [*lines, f"{'':<{LABEL_COLUMNS}}{command}"]


def action_lines(number: int, action: Action, run: str, width: int) -> list[str]:
    """Return the lines of a numbered action.

    The lines have the text of the action, its checks, and the number of findings that ask for the action.
    The last line has the command that explains the action.
    """
    findings = f"{', '.join(action['checks'])}, {plural(action['count'], 'finding')}"
    text = f"{number}. {action['text']}{unconfirmed_note(action)} [{findings}]"
    command = explain_command(action["checks"][0], action, run)
    return [*fold_text(text, width, "  ", "     "), f"     {command}"]


def forbidden_lines(forbidden_actions: Sequence[ForbiddenAction], width: int) -> list[str]:
    """Return the lines on actions that findings ask for, but that a hold forbids.

    A hold is a rule that forbids actions on an object. Each action comes with its way out: the condition
    that must be met before the action is permitted.
    """
    lines = []
    for forbidden_action in forbidden_actions:
        lines += fold_text(forbidden_sentence(forbidden_action), width, "  ", "    ")
        lines += fold_text(f"until: {forbidden_action['way_out']}", width, "    ", "      ")
    return lines


def forbidden_sentence(action: ForbiddenAction) -> str:
    """Return a sentence that forbids an action and gives the reason.

    >>> forbidden_sentence({"kind": "start", "objects": "bk1:3181", "why": "its disk is not mounted",
    ...                     "way_out": "audit again", "checks": ["bookie-down"]})
    'do not start bk1:3181: its disk is not mounted'
    """
    return f"do not {action['kind'].replace('-', ' ')} {action['objects']}: {action['why']}"


def unconfirmed_note(action: Action) -> str:
    """Return " (unconfirmed)" if all findings that ask for the action are unconfirmed, else an empty text.

    The text is also empty if the action has the urgency ``Urgency.UNCHECKED``.
    """
    if action["urgency"] == Urgency.UNCHECKED or action["unsure"] < action["count"]:
        return ""
    return " (unconfirmed)"


def explain_command(check_id: str, action_or_step: Action | Step, run: str) -> str:
    """Return the `bkaudit explain` command for the first object of an action or of a plan's step.

    If the action or step names neither a ledger nor a bookie, the command explains the check.
    """
    scope, ledger = (
        None if id is None else int(id) for id in (action_or_step["scope_id"], action_or_step["ledger_id"])
    )
    severity = Severity(action_or_step["severity"])
    first_finding = Finding(
        check_id, severity, Confidence.CONFIRMED, scope, ledger, action_or_step["bookie_id"]
    )
    return command_for(first_finding, run) or f"bkaudit explain check {check_id}"
