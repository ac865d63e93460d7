"""Manual pages of the checks, for a terminal and as documents.

    python -m auditor.reports.check_pages

writes docs/checks.md, the list of all checks, and a page for each group of checks below docs/checks. The
page docs/checks/commands.md explains the commands that several checks share. For such a command, the page
of a check repeats only the level of the risk. The texts in `_COMMON_SENTENCES` and `_COMMON_COMMAND_ITEMS`
appear only in the preface of docs/checks.md.
"""

import re
from pathlib import Path

from auditor.checks import ALL_CHECKS, GROUP_BY_ID, GROUPS, Check
from auditor.checks.manual import RISK_WORDS, SECTIONS, SHARED_COMMANDS, Command
from auditor.model.check_settings import Constant, StricterDirection, constants, default_value
from auditor.reports.plain_text import wrap_words

WIDTH = 80
_BULLET_START = re.compile(r"^- ", re.MULTILINE)

_CHECKS_PREFACE = """\
# Checks

`bkaudit explain check NAME` prints the page of one check. `bkaudit explain ledger`, `bkaudit explain bookie`
and `bkaudit explain run` print commands with the ids filled in.

The pages do not repeat two rules that most checks share. A check confirms a finding, unless **Confidence**
names an exception. A finding is suspect if its ledgers all changed between the two metadata scans, or if
the bookie has `disk-id-mismatch`. The pages also leave out these commands:

- `ledgermetadata -l ID` prints a ledger's metadata.
- `readledger -l ID -fe FIRST -le NEXT -b BOOKIE` asks one bookie for entries. *load.*
- `listbookies -rw -h` lists the writable bookies, `listbookies -ro -h` the read-only ones.
- `cookie_get BOOKIE` prints the bookie's cookie.
- `listunderreplicated -pmr -prw` lists the marked ledgers.
- `queryautorecoverystatus` prints whether replication is on.

The audit reads bookies' settings from `--bookie-conf`. Without it, the server's defaults count.

Commands without `bkaudit` belong to the `bookkeeper shell` of BookKeeper 4.17 ([what they
do](checks/commands.md)). Replace the words in capitals. NEXT is the last entry plus one. The word in italics
after a command is its risk. A command without a risk changes nothing:

| risk | |
| --- | --- |
"""
_SETTINGS_PREFACE = """\

**Settings** lists the constants of a check with their defaults. To change one, set it in the table
`constants` of the `--check-settings` file ([options](options.md)). [conf/checks.toml](../conf/checks.toml)
has the bounds. If `--checks` or `--skip-checks` leaves out a check, the report names it, and the exit code is
at best 3. bkaudit then refuses some actions ([safety](safety.md)). bkaudit also does so if a constant is less
careful than its default.

The shell's `cookie_` commands refuse bookie ids that are not `host:port`. No released shell knows
ledgers in a scope other than 0.
"""
_COMMANDS_PREFACE = """\
# Commands of several checks

Type `bookkeeper shell` before each command. The risk is in italics ([all checks and risks](../checks.md)).

"""
_COMMON_SENTENCES = (
    " Suspect if the ledger changed between the two metadata scans.",
    " Suspect if all of the ledgers changed between the two metadata scans.",
    " Suspect if the bookie also has `disk-id-mismatch`.",
)
"""Sentences of many checks. The pages of checks omit them, because the preface says the same once."""
_COMMON_COMMAND_ITEMS = (
    "- `ledgermetadata -l ID`",
    "- `readledger -l ID -fe FIRST -le NEXT -b BOOKIE` *load.*",
    "- `listbookies -rw -h`",
    "- `listbookies -ro -h`",
    "- `cookie_get BOOKIE`",
    "- `listunderreplicated -pmr -prw`",
    "- `queryautorecoverystatus`",
)
"""Commands of many checks, without a note of the check. The pages of checks omit them too."""
_CONFIRMED_START = re.compile(r"Confirmed(?:[:,]| by) (?:[^.]|\.(?! |$))*\.(?: (?=Suspect)|$)")
"""Beginning of a section "How sure" that names no condition. Documents omit it and keep the exceptions."""
_SECTION_LABELS = {"Why it matters": "Why", "How sure": "Confidence", "What to do": "Do"}
"""Short labels of sections, as at a terminal."""
_SHELL_PREFIX = "bookkeeper shell "


def page_text(check: Check, width: int = WIDTH) -> str:
    """Return a check's manual page for a terminal. Commands are never folded, so that they can be copied."""
    parts = [f"{check.id} ({check.severity}, {GROUP_BY_ID[check.id]})", _fold_block(check.title, width)]
    for heading, text in check.sections.items():
        if heading == "Commands":
            lines = [line for command in check.commands for line in command_lines(command, width, "    ")]
            body = "\n".join(lines)
        else:
            body = "\n".join(_fold_block(block, width, "    ") for block in _text_blocks(text))
        parts.append(f"{heading}\n{body}")
    if check.settings:
        settings_text = "\n".join(
            _fold_block(f"- {text}", width, "    ") for text in setting_sentences(check)
        )
        parts.append(f"Settings\n{settings_text}")
    return "\n\n".join(parts)


def setting_sentences(check: Check) -> list[str]:
    """Return a text on each constant that a check uses: name, default, unit, bounds and reason."""
    return [_setting_sentence(name, constants()[name]) for name in check.settings]


def _setting_sentence(name: str, constant: Constant) -> str:
    refusal_clause = ""
    if constant.stricter_side is not StricterDirection.ANY:
        less_careful_value = (
            "any other value"
            if constant.stricter_side is StricterDirection.DEFAULT
            else f"a {_LESS_CAREFUL_SIDES[constant.stricter_side]} one"
        )
        refusal_clause = f" With {less_careful_value}, actions that this check could forbid are refused."
    return (
        f"`{name}`, by default {default_value(name):,} {constant.unit} "
        f"({constant.low:,} to {constant.high:,}). "
        f"{constant.reason}{refusal_clause}"
    )


_LESS_CAREFUL_SIDES = {StricterDirection.LOWER: "higher", StricterDirection.HIGHER: "lower"}
"""Direction of change in which a check finds fewer dangers, by the stricter direction of the constant."""


def command_lines(command: Command, width: int, indent: str) -> list[str]:
    """Return the line of a command, and below it its effect and its risk."""
    command_indent = f"{indent}    "
    effect_text = command.effect[0].upper() + command.effect[1:]
    sentences = [f"{effect_text}.", f"Risk: {command.risk}"]
    return [
        f"{indent}{command.text}",
        *(line for text in sentences for line in wrap_words(text, width, command_indent, command_indent)),
    ]


def document_texts() -> dict[str, str]:
    """Return the text of each document by its path below docs.

    The documents are a list of all checks, a page for each group of checks, and a page of shared commands.
    """
    risks = "".join(f"| {risk_level} | {risk} |\n" for risk_level, risk in RISK_WORDS.items())
    page_parts = [f"{_CHECKS_PREFACE}{risks}{_SETTINGS_PREFACE}".rstrip("\n")]
    pages = {}
    for group in GROUPS:
        checks = [check for check in ALL_CHECKS if GROUP_BY_ID[check.id] == group]
        page_parts += [
            f"## [{group.capitalize()}](checks/{group}.md)",
            "\n".join(_check_item(check) for check in checks),
        ]
        page_head = f"# Checks: {group}\n\n[All checks and risks](../checks.md). [Commands](commands.md)."
        pages[f"checks/{group}.md"] = "\n\n".join([page_head, *map(_markdown_page, checks)]) + "\n"
    pages["checks/commands.md"] = _COMMANDS_PREFACE + "".join(
        map(_shared_command_item, SHARED_COMMANDS.values())
    )
    return {"checks.md": "\n\n".join(page_parts) + "\n", **pages}


def write_documents(docs_directory: Path = Path("docs")) -> None:
    """Write the documents below ``docs_directory``."""
    for name, text in document_texts().items():
        (docs_directory / name).parent.mkdir(exist_ok=True)
        (docs_directory / name).write_text(text, "utf-8")


def _check_item(check: Check) -> str:
    # Older links lead to an anchor in this page, where the check stood once.
    link = f"[{check.id}](checks/{GROUP_BY_ID[check.id]}.md#{check.id})"
    return f'- <a id="{check.id}"></a>{link} ({check.severity}): {check.title}'


def _shared_command_item(command: Command) -> str:
    risk_text = _risk_text(command.risk_level, command.risk)
    return f"- `{command.text.removeprefix(_SHELL_PREFIX)}` {command.effect}.{risk_text}\n"


def _risk_text(risk_level: str, text: str) -> str:
    """Return the text on a command's risk, which ends the command's line.

    If the level is "none", the first sentence of ``text`` is left out.
    """
    if risk_level == "none":
        text = text.partition(". ")[2]
    return f" *{text}*" if text else ""


def _markdown_page(check: Check) -> str:
    """Return a check's section in the page of its group. The part on what the check finds has no heading."""
    parts = [f"## {check.id}", f"*{check.severity}.* {check.title}"]
    if check.aliases:
        parts.append(f"Once called {', '.join(check.aliases)}.")
    for heading, text in check.sections.items():
        if heading == "Commands":
            command_items = [_markdown_command(command) for command in check.commands]
            commands = "\n".join(
                command_item for command_item in command_items if command_item not in _COMMON_COMMAND_ITEMS
            )
            is_after_list = parts[-1].splitlines()[-1].startswith("- ")
            parts += [f"Commands:\n\n{commands}" if is_after_list else commands] if commands else []
            continue
        first_block, *later_blocks = [
            _drop_common_sentences(" ".join(block.split())) for block in _text_blocks(text)
        ]
        if heading == "How sure" and not (first_block := _CONFIRMED_START.sub("", first_block, count=1)):
            continue
        label = "" if heading == SECTIONS[0] else f"**{_SECTION_LABELS.get(heading, heading)}.** "
        parts += ["\n".join([f"{label}{first_block}", *([""] if later_blocks else []), *later_blocks])]
    if check.settings:
        setting_texts = (
            f"`{name}`: {default_value(name):,} {constants()[name].unit}" for name in check.settings
        )
        parts.append(f"**Settings.** {'; '.join(setting_texts)}.")
    return "\n\n".join(parts)


def _drop_common_sentences(text: str) -> str:
    for sentence in _COMMON_SENTENCES:
        text = text.replace(sentence, "")
    return text


def _markdown_command(command: Command) -> str:
    """Return a command with its effect and its risk.

    For a shared command, leave out what the page of shared commands explains, except the level of the risk.
    """
    shared_command = SHARED_COMMANDS.get(command.text)
    effect = (
        command.effect
        if shared_command is None
        else command.effect.removeprefix(shared_command.effect).removeprefix(". ")
    )
    effect_text = f" {effect}." if effect else ""
    risk = command.risk if shared_command is None else f"{command.risk_level}."
    return (
        f"- `{command.text.removeprefix(_SHELL_PREFIX)}`{effect_text}{_risk_text(command.risk_level, risk)}"
    )


def _text_blocks(text: str) -> list[str]:
    """Split a section into its paragraph and its bullets."""
    first_block, *bullets = _BULLET_START.split(text)
    return [*([first_block] if first_block.strip() else []), *(f"- {bullet}" for bullet in bullets)]


def _fold_block(text: str, width: int, indent: str = "") -> str:
    later_indent = f"{indent}  " if text.startswith("- ") else indent
    return "\n".join(wrap_words(" ".join(text.split()), width, indent, later_indent))


if __name__ == "__main__":
    write_documents()
