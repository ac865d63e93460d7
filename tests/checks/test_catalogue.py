"""The list of checks: ids that never change, and manual pages that an operator can follow."""

from __future__ import annotations

import importlib
import re
import shlex
from collections import Counter

import pytest

from auditor.checks import ALL_CHECKS, CHECK_BY_ID, GROUP_BY_ID, GROUPS, SECTIONS, Basis, Check
from auditor.checks.check import check
from auditor.checks.manual import RISK_WORDS, SHARED_COMMANDS, commands
from auditor.cli import COMMAND_HELP_TEXTS
from auditor.model.finding import Severity, Urgency
from auditor.model.holds import ActionKind, HoldRule, HoldTarget
from tests.checks.tables_builder import BLANKS

# Written out: an id is a promise to whoever alerts on it. A renamed one stays as an alias.
CATALOGUE = {
    "replication": {
        "entry-lost": "critical",
        "below-ack-quorum": "error",
        "below-write-quorum": "warning",
        "ledger-unavailable": "error",
        "replication-undecided": "note",
        "bookie-unread": "note",
        "on-unregistered-bookie": "warning",
        "copy-lagging": "note",
        "mark-stale": "note",
        "mark-stuck": "warning",
        "mark-missing": "note",
        "mark-of-deleted-ledger": "note",
        "mark-of-empty-ledger": "note",
        "mark-directory-empty": "note",
        "lock-without-mark": "note",
        "mark-unknown-replica": "note",
        "mark-unreadable": "warning",
        "all-bookies-read-only": "error",
        "too-few-writable-bookies": "error",
        "no-auditor": "warning",
        "no-replication-workers": "warning",
        "replication-disabled": "warning",
        "lost-bookie-delay-long": "warning",
        "server-check-overdue": "warning",
    },
    "placement": {
        "placement-violated": "warning",
        "placement-at-risk": "warning",
        "bookie-without-location": "warning",
        "location-depths-mixed": "error",
        "location-slashes": "warning",
        "bookie-in-two-groups": "note",
        "placement-settings-differ": "warning",
    },
    "storage": {
        "orphan-ledger": "note",
        "orphan-ledger-deleting": "note",
        "orphan-stuck": "warning",
        "over-replicated-ledger": "note",
        "copy-in-flight": "note",
        "stale-segment": "note",
        "entries-past-end": "error",
        "surplus-entries": "note",
        "index-unreadable": "error",
        "index-incomplete": "warning",
        "ledger-not-indexed": "error",
        "ledgers-in-limbo": "warning",
        "ledgers-in-wrong-directory": "error",
        "metadata-suspect": "critical",
        "source-suspect": "warning",
        "gc-would-delete-live": "critical",
        "stray-file": "note",
        "entry-log-header-wrong": "critical",
        "entry-log-missing": "error",
        "entry-digest-wrong": "error",
        "replica-mismatch": "error",
        "master-key-mismatch": "warning",
        "entry-log-reclaimable": "note",
        "entry-log-pinned": "note",
        "compaction-stopped": "warning",
    },
    "identity": {
        "ghost-bookie": "error",
        "bookie-down": "warning",
        "cookie-missing": "error",
        "cookie-unused": "note",
        "cookie-key-mismatch": "error",
        "cookie-unreadable": "error",
        "disk-id-mismatch": "error",
        "disk-content-mismatch": "error",
        "bookie-alias": "critical",
        "alias-gc-danger": "critical",
        "instance-mismatch": "critical",
        "disk-version-missing": "critical",
        "disk-dirs-disagree": "error",
        "dirset-mismatch": "error",
        "disk-shared": "critical",
        "start-refused": "error",
        "bookie-id-invalid": "error",
        "bookie-id-reserved": "error",
        "registered-twice": "warning",
        "registration-not-ephemeral": "error",
        "instance-id-missing": "warning",
        "endpoint-missing": "error",
        "endpoint-duplicate": "error",
        "endpoint-drift": "note",
    },
    "metadata": {
        "metadata-unreadable": "error",
        "metadata-misplaced": "error",
        "segment-gap": "error",
        "segment-order": "error",
        "ensemble-size": "error",
        "ensemble-duplicate": "error",
        "quorum-invalid": "error",
        "recovery-stuck": "warning",
        "ledger-open-long": "note",
        "id-generator-behind": "error",
    },
    "owner": {
        "owner-dangling": "error",
        "owner-unreadable": "error",
        "owner-length-mismatch": "warning",
        "ledger-misattributed": "warning",
        "ledger-unowned": "note",
        "owners-suspect": "note",
        "offload-incomplete": "note",
        "offload-not-trimmed": "note",
        "offload-object-missing": "error",
        "object-orphan": "note",
    },
}
# Commands of BookKeeper 4.17.2's shell, as its BookieShell registers them: options without a value, options
# with one, and how many arguments are left. "a|b" are two names of one option, "a/b" of which one is wanted.
SHELL = {
    "autorecovery": ("e/d", "", 0),
    "bookieformat": ("n|nonInteractive f|force d|deleteCookie", "", 0),
    "check-db-ledgers-index": ("v|verbose", "", 0),
    "cookie_create": ("", "cf!", 1),
    "cookie_delete": ("", "", 1),
    "cookie_generate": ("", "j! l! o! i ix", 1),
    "cookie_get": ("", "", 1),
    "cookie_update": ("", "cf!", 1),
    "decommissionbookie": ("", "bookieid", 0),
    "deleteledger": ("f|force", "l!", 0),
    "endpointinfo": ("", "b!", 0),
    "ledger": ("m|meta", "", 1),
    "ledgermetadata": ("update", "l! dumptofile restorefromfile", 0),
    "listbookies": ("rw/ro/a h|hostnames", "", 0),
    "listfilesondisc": ("txn log idx", "", 0),
    "listledgers": ("m|meta", "bookieid", 0),
    "listunderreplicated": ("pmr prw c", "mr emr", 0),
    "localconsistencycheck": ("", "", 0),
    "lostbookierecoverydelay": ("g", "s", 0),
    "queryautorecoverystatus": ("", "", 0),
    "readledger": ("m|msg r|force-recovery", "l! fe le b", 0),
    "rebuild-db-ledger-locations-index": ("", "", 0),
    "rebuild-db-ledgers-index": ("v|verbose", "", 0),
    "recover": ("q|query dr|dryrun f|force sk|skipOpenLedgers d|deleteCookie sku", "l|ledger rate", 1),
    "regenerate-interleaved-storage-index-file": ("dryRun", "l! password b64password", 0),
    "triggeraudit": ("", "", 0),
    "updateBookieInLedger": ("", "sb! db! s r l v p", 0),
    "updatecookie": ("e|expandstorage l|list d|delete", "b|bookieId", 0),
    "updateledgers": ("", "b|bookieId s r l v p", 0),
    "whatisinstanceid": ("", "", 0),
    "whoisauditor": ("", "", 0),
}
# Of these the shell refuses every call without a password, and reads up to but not including -le with -b.
PASSWORD = "regenerate-interleaved-storage-index-file"
every_check = pytest.mark.parametrize("each", ALL_CHECKS, ids=lambda each: each.id)


def test_check_ids_order_groups_and_severities_match_the_catalogue() -> None:
    written = [(name, group, severity) for group, ids in CATALOGUE.items() for name, severity in ids.items()]
    assert [(entry.id, GROUP_BY_ID[entry.id], entry.severity.value) for entry in ALL_CHECKS] == written
    assert tuple(CATALOGUE) == GROUPS


def test_no_two_checks_share_an_id_or_alias() -> None:
    names = [name for entry in ALL_CHECKS for name in (entry.id, *entry.aliases)]
    assert len(set(names)) == len(names)
    assert set(CHECK_BY_ID) == set(names)


@every_check
def test_check_is_defined_in_the_module_of_its_name(each: Check) -> None:
    module = importlib.import_module(f"auditor.checks.{each.id.replace('-', '_')}")
    assert each in vars(module).values()
    assert each.finder.__module__ == module.__name__


@every_check
def test_manual_page_has_all_sections_in_full_sentences(each: Check) -> None:
    assert tuple(each.sections) == SECTIONS
    assert each.title.endswith(".")
    assert all(text.endswith(".") for text in each.sections.values())
    assert len(each.title) <= 100


@every_check
def test_every_page_names_a_command_and_its_risk(each: Check) -> None:
    assert each.commands
    for command in each.commands:
        assert command.risk_level in RISK_WORDS
        assert command.risk.startswith(command.risk_level)
        assert len(command.risk) > len(command.risk_level) + 5, "a risk is told in words"
        assert command.risk.endswith(".")


@every_check
def test_first_command_of_a_manual_page_changes_nothing(each: Check) -> None:
    """An operator who runs only the first command of a page changes nothing."""
    assert each.commands[0].risk_level in ("none", "load")


@every_check
def test_manual_page_commands_are_valid_shell_commands(each: Check) -> None:
    for command in each.commands:
        program, *words = shlex.split(command.text)
        if program == "bookkeeper":
            assert words.pop(0) == "shell"
            assert_shell_accepts(*words)
        else:
            assert program == "bkaudit"
            assert words[0] in COMMAND_HELP_TEXTS


def assert_shell_accepts(name: str, *words: str) -> None:
    """Assert that the shell accepts these words; a misspelled command is worse than none."""
    flags, valued, arguments = SHELL[name]
    flag_names = {option_name for spec in flags.split() for option_name in re.split("[|/]", spec)}
    valued_names = {option_name for spec in valued.split() for option_name in spec.rstrip("!").split("|")}
    options, pending = [], list(words)
    positional = []
    while pending:
        word = pending.pop(0)
        if not word.startswith("-"):
            positional.append(word)
            continue
        option = word.removeprefix("-")
        assert option in flag_names | valued_names, f"{name} has no option {word}"
        options.append(option)
        if option in valued_names:
            value = pending.pop(0)
            assert re.fullmatch("[A-Z]+|hostname|ip", value), f"{name} {word} wants a value"
    assert len(positional) == arguments
    assert all(re.fullmatch("[A-Z]+", word) for word in positional)
    assert {spec.rstrip("!") for spec in valued.split() if spec.endswith("!")} <= set(options)
    for choice in (spec.split("/") for spec in flags.split() if "/" in spec):
        assert len(set(choice) & set(options)) == 1, f"{name} wants one of {choice}"
    if name == PASSWORD:
        assert {"password", "b64password"} & set(options)
    if name == "readledger" and "b" in options:
        assert words[words.index("-le") + 1 :][:1] == ("NEXT",)
    if name == "updatecookie":
        assert len(options) == 1


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("listunderreplicated -w", "no option -w"),
        ("listbookies -rw -ro", "wants one of"),
        ("cookie_get", "assert 0 == 1"),
        ("readledger -l ID -b BOOKIE", "not in tuple"),
        ("readledger -l ID -fe FIRST -le LAST -b BOOKIE", "NEXT"),
        ("regenerate-interleaved-storage-index-file -l ID -dryRun", "password"),
        ("cookie_create BOOKIE", "cf"),
        ("recover -l BOOKIE", "assert 0 == 1"),
    ],
)
def test_invalid_shell_command_is_detected(wrong: str, why: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=why):
        assert_shell_accepts(*wrong.split())


@every_check
def test_placeholders_in_commands_are_known(each: Check) -> None:
    for command in each.commands:
        assert set(re.findall(r"\b[A-Z]{2,}\b", command.text)) <= set(BLANKS)


def test_commands_on_several_pages_are_the_shared_commands() -> None:
    pages = Counter(command.text for entry in ALL_CHECKS for command in entry.commands)
    assert {text for text, count in pages.items() if count > 1} == set(SHARED_COMMANDS)


def test_repeated_text_of_a_shared_command_is_refused() -> None:
    with pytest.raises(ValueError, match="no command with its risk"):
        commands("- `bookkeeper shell cookie_get BOOKIE`\n  prints it. Risk: none; it reads metadata.")


def test_check_with_a_duplicate_section_is_refused() -> None:
    def sure(tables: object) -> None:
        """State its confidence twice."""

    sure.__doc__ = f"{ALL_CHECKS[0].finder.__doc__}\n    How sure:\n        Suspect.\n"
    with pytest.raises(TypeError, match="sure: repeats headings: How sure"):
        check(Severity.NOTE, rests_on=Basis.DISKS)(sure)  # type: ignore[arg-type]


def test_a_check_without_a_section_cannot_be_made() -> None:
    def unfinished(tables: object) -> None:
        """Omit required sections.

        What it finds:
            Something.
        """

    with pytest.raises(TypeError, match="Why it matters, How sure, What to do, Commands, Limits"):
        check(Severity.NOTE, rests_on=Basis.DISKS)(unfinished)  # type: ignore[arg-type]


def test_a_check_with_a_command_of_unknown_risk_cannot_be_made() -> None:
    def risky(tables: object) -> None:
        """Have a command without its risk."""

    risky.__doc__ = (CHECK_BY_ID["mark-missing"].finder.__doc__ or "").replace("Risk:", "Note:")
    with pytest.raises(TypeError, match="no command with its risk: `bookkeeper shell triggeraudit"):
        check(Severity.NOTE, rests_on=Basis.DISKS)(risky)  # type: ignore[arg-type]


@pytest.mark.parametrize("urgency", [Urgency.DESTROYS_DATA, Urgency.LOST])
def test_a_check_of_lost_data_without_a_hold_cannot_be_made(urgency: Urgency) -> None:
    find = CHECK_BY_ID["mark-missing"].finder
    with pytest.raises(TypeError, match=f"a check of urgency {urgency} must declare at least one hold"):
        check(Severity.CRITICAL, rests_on=Basis.DISKS, urgency=urgency)(find)
    hold = HoldRule(HoldTarget.BOOKIE, (ActionKind.COLLECT,))
    new_check = check(Severity.CRITICAL, rests_on=Basis.DISKS, urgency=urgency, holds=(hold,))(find)
    assert new_check.holds == (hold,)


def test_check_has_its_id_and_the_given_aliases() -> None:
    renamed = check(Severity.NOTE, rests_on=Basis.DISKS, aliases=("old-word",))(ALL_CHECKS[0].finder)
    assert (renamed.id, renamed.aliases) == (ALL_CHECKS[0].id, ("old-word",))
