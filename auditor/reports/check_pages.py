"""Manual pages of the checks, for a terminal and as documents.

    python -m auditor.reports.check_pages

writes docs/checks.md, the list of all checks, and a page for each group below docs/checks. Commands that
several checks share are explained in docs/checks/commands.md. A check's page repeats only the level of their
risk. The preface of docs/checks.md states once what `_COMMON_COMMANDS` and `_COMMON_COMMAND_ITEMS` have.
"""

import re
from pathlib import Path

from auditor.checks import ALL, GROUP_OF, GROUPS, Check
from auditor.checks.manual import RISKS, SECTIONS, SHARED_COMMANDS, Command
from auditor.model.check_settings import CarefulSide, Constant, constants, default_value
from auditor.reports.plain_text import wrap_words

WIDTH = 80
_BULLET_START = re.compile(r"^- ", re.MULTILINE)

_CHECKS_PREFACE = """\
# Checks

`bkaudit explain check NAME` prints the page of one check. `bkaudit explain ledger`, `bkaudit explain bookie`
and `bkaudit explain run` print commands with ids instead of capitals.

The pages leave out what many checks share. Most checks call a finding suspect in two cases: its ledger (or
all of its ledgers) changed between the two metadata scans, or the bookie has `disk-id-mismatch`. A check
confirms its findings unless **Sure** has an exception. The pages do not repeat these commands:

- `ledgermetadata -l ID` prints the metadata of a finding's ledger.
- `readledger -l ID -fe FIRST -le NEXT -b BOOKIE` asks one bookie for entries. *load.*
- `listbookies -rw -h` lists the writable bookies, `listbookies -ro -h` the read-only ones.
- `cookie_get BOOKIE` prints the cookie of a bookie.
- `listunderreplicated -pmr -prw` lists the marked ledgers.
- `queryautorecoverystatus` prints whether replication is on.

Settings of bookies come from `--bookie-conf`; without it, the server's defaults count.

Commands without `bkaudit` belong to BookKeeper 4.17's `bookkeeper shell`
([what they do](checks/commands.md)). Replace the words in capitals; NEXT is one past the last entry. The
word behind a command is its risk. A command without one changes nothing:

| risk | |
| --- | --- |
"""
_CUSTOM_IDS = """\

**Settings** has the constants of a check, with their defaults. The table `constants` of the
`--check-settings` file changes them ([options.md](options.md), bounds in
[conf/checks.toml](../conf/checks.toml)). `--checks` and `--skip-checks` leave checks out. The report then
names these checks, the exit code is 3 at best, and bkaudit refuses some actions. It also does so if a
constant finds fewer dangers than its default ([safety](safety.md)).

The shell's `cookie_` commands refuse ids that are not of the form `host:port`. No released shell knows
ledgers of a scope other than 0.
"""
_COMMANDS_PREFACE = """\
# Commands of several checks

[All checks and risks](../checks.md). Type `bookkeeper shell` before each command.

"""
_COMMON_COMMANDS = (
    " Suspect if the ledger changed between the two metadata scans.",
    " Suspect if all of the ledgers changed between the two metadata scans.",
    " Suspect if the bookie also has `disk-id-mismatch`.",
)
"""Sentences of many checks; the documents omit them, because their preface says the same once."""
_COMMON_COMMAND_ITEMS = (
    "- `ledgermetadata -l ID`",
    "- `readledger -l ID -fe FIRST -le NEXT -b BOOKIE` *load.*",
    "- `listbookies -rw -h`",
    "- `listbookies -ro -h`",
    "- `cookie_get BOOKIE`",
    "- `listunderreplicated -pmr -prw`",
    "- `queryautorecoverystatus`",
)
"""Commands of many checks, without a note of the check; the documents omit them likewise."""
_CONFIRMED = re.compile(r"Confirmed(?:[:,]| by) (?:[^.]|\.(?! |$))*\.(?: (?=Suspect)|$)")
"""Start of a section How sure without a condition; documents only have the exceptions that follow."""
_SECTION_LABELS = {"Why it matters": "Why", "How sure": "Sure", "What to do": "Do"}
"""Short labels of sections, as at a terminal."""
_SHELL = "bookkeeper shell "


def page(check: Check, width: int = WIDTH) -> str:
    """Return a check's manual page for a terminal. Commands are never folded, so that they can be copied."""
    parts = [f"{check.id} ({check.severity}, {GROUP_OF[check.id]})", _fill_block(check.title, width)]
    for heading, text in check.sections.items():
        if heading == "Commands":
            lines = [line for command in check.commands for line in command_lines(command, width, "    ")]
            body = "\n".join(lines)
        else:
            body = "\n".join(_fill_block(block, width, "    ") for block in _text_blocks(text))
        parts.append(f"{heading}\n{body}")
    if check.settings:
        settings = "\n".join(_fill_block(f"- {text}", width, "    ") for text in setting_sentences(check))
        parts.append(f"Settings\n{settings}")
    return "\n\n".join(parts)


def setting_sentences(check: Check) -> list[str]:
    """Return a text on each constant that a check uses: name, default, unit, bounds and reason."""
    return [_setting_sentence(name, constants()[name]) for name in check.settings]


def _setting_sentence(name: str, constant: Constant) -> str:
    careful_clause = ""
    if constant.careful is not CarefulSide.ANY:
        careful_side = (
            "any other value"
            if constant.careful is CarefulSide.DEFAULT
            else f"a {_OPPOSITE_SIDES[constant.careful]} one"
        )
        careful_clause = f" With {careful_side}, actions that this check could forbid are refused."
    return (
        f"`{name}`, by default {default_value(name):,} {constant.unit} "
        f"({constant.low:,} to {constant.high:,}). "
        f"{constant.reason}{careful_clause}"
    )


_OPPOSITE_SIDES = {CarefulSide.LOWER: "higher", CarefulSide.HIGHER: "lower"}
"""Values of a constant that find fewer dangers, relative to the default, by the constant's careful side."""


def command_lines(command: Command, width: int, indent: str) -> list[str]:
    """Return the line of a command, and below it its effect and its risk."""
    command_indent = f"{indent}    "
    effect = command.effect[0].upper() + command.effect[1:]
    sentences = [f"{effect}.", f"Risk: {command.risk}"]
    return [
        f"{indent}{command.text}",
        *(line for text in sentences for line in wrap_words(text, width, command_indent, command_indent)),
    ]


def documents() -> dict[str, str]:
    """Return the text of each document by its path below docs.

    The documents are a list of all checks, a page for each group of checks, and a page of shared commands.
    """
    risks = "".join(f"| {level} | {risk} |\n" for level, risk in RISKS.items())
    page_parts = [f"{_CHECKS_PREFACE}{risks}{_CUSTOM_IDS}".rstrip("\n")]
    pages = {}
    for group in GROUPS:
        checks = [check for check in ALL if GROUP_OF[check.id] == group]
        page_parts += [
            f"## [{group.capitalize()}](checks/{group}.md)",
            "\n".join(_check_entry(check) for check in checks),
        ]
        page_head = f"# Checks: {group}\n\n[All checks and risks](../checks.md). [Commands](commands.md)."
        pages[f"checks/{group}.md"] = "\n\n".join([page_head, *map(_markdown_page, checks)]) + "\n"
    pages["checks/commands.md"] = _COMMANDS_PREFACE + "".join(map(_shared_entry, SHARED_COMMANDS.values()))
    return {"checks.md": "\n\n".join(page_parts) + "\n", **pages}


def write_documents(docs: Path = Path("docs")) -> None:
    """Write the documents below ``docs``."""
    for name, text in documents().items():
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(text, "utf-8")


def _check_entry(check: Check) -> str:
    # What leads to a check in this page, as it stood there once, still does.
    link = f"[{check.id}](checks/{GROUP_OF[check.id]}.md#{check.id})"
    return f'- <a id="{check.id}"></a>{link} ({check.severity}): {check.title}'


def _shared_entry(command: Command) -> str:
    return f"- `{command.text.removeprefix(_SHELL)}` {command.effect}.{_risk(command.level, command.risk)}\n"


def _risk(level: str, text: str) -> str:
    """Return a risk for the end of a command's line; if the command has no risk, return only the advice."""
    if level == "none":
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
            commands = "\n".join(item for item in command_items if item not in _COMMON_COMMAND_ITEMS)
            is_after_list = parts[-1].splitlines()[-1].startswith("- ")
            parts += [f"Commands:\n\n{commands}" if is_after_list else commands] if commands else []
            continue
        first, *later_blocks = [_drop_common_command(" ".join(block.split())) for block in _text_blocks(text)]
        if heading == "How sure" and not (first := _CONFIRMED.sub("", first, count=1)):
            continue
        label = "" if heading == SECTIONS[0] else f"**{_SECTION_LABELS.get(heading, heading)}.** "
        parts += ["\n".join([f"{label}{first}", *([""] if later_blocks else []), *later_blocks])]
    if check.settings:
        setting_texts = (
            f"`{name}`: {default_value(name):,} {constants()[name].unit}" for name in check.settings
        )
        parts.append(f"**Settings.** {'; '.join(setting_texts)}.")
    return "\n\n".join(parts)


def _drop_common_command(text: str) -> str:
    for sentence in _COMMON_COMMANDS:
        text = text.replace(sentence, "")
    return text


def _markdown_command(command: Command) -> str:
    """Return a command with its risk and the explanation that the page of shared commands does not give."""
    shared_command = SHARED_COMMANDS.get(command.text)
    effect = (
        command.effect
        if shared_command is None
        else command.effect.removeprefix(shared_command.effect).removeprefix(". ")
    )
    effect_text = f" {effect}." if effect else ""
    risk = command.risk if shared_command is None else f"{command.level}."
    return f"- `{command.text.removeprefix(_SHELL)}`{effect_text}{_risk(command.level, risk)}"


def _text_blocks(text: str) -> list[str]:
    """Split a section into its paragraph and its bullets."""
    first, *bullets = _BULLET_START.split(text)
    return [*([first] if first.strip() else []), *(f"- {bullet}" for bullet in bullets)]


def _fill_block(text: str, width: int, indent: str = "") -> str:
    later_indent = f"{indent}  " if text.startswith("- ") else indent
    return "\n".join(wrap_words(" ".join(text.split()), width, indent, later_indent))


if __name__ == "__main__":
    write_documents()
