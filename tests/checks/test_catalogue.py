"""The list of checks: ids that never change, and manual pages that an operator can follow."""

from __future__ import annotations

import importlib
import re

import pytest

from auditor.checks import ALL, BY_ID, GROUPS, SECTIONS, Check
from auditor.checks.check import check
from auditor.model.finding import Severity

# Written out: an id is a promise to whoever alerts on it. A renamed one stays as an alias.
CATALOGUE = {
    "replication": {
        "entry-lost": "critical",
        "below-ack-quorum": "error",
        "below-write-quorum": "warning",
        "replication-undecided": "note",
        "bookie-unread": "note",
        "on-unregistered-bookie": "warning",
        "copy-lagging": "note",
        "mark-stale": "note",
        "mark-stuck": "warning",
        "mark-missing": "note",
        "mark-of-deleted-ledger": "note",
        "mark-unknown-replica": "note",
        "mark-unreadable": "warning",
    },
    "storage": {
        "orphan-ledger": "note",
        "orphan-ledger-deleting": "note",
        "over-replicated-ledger": "note",
        "copy-in-flight": "note",
        "stale-segment": "note",
        "surplus-entries": "note",
        "index-unreadable": "error",
        "ledger-not-indexed": "error",
        "metadata-suspect": "critical",
        "stray-file": "note",
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
    },
}
# Commands of BookKeeper 4.17's shell, as its BookieShell registers them.
SHELL = """
    autorecovery bookieformat bookieinfo bookiesanity check-db-ledgers-index clusterinfo
    cookie_create cookie_delete cookie_generate cookie_get cookie_update decommissionbookie
    deleteledger endpointinfo ledger ledgermetadata listbookies listfilesondisc listledgers
    listunderreplicated localconsistencycheck lostbookierecoverydelay queryautorecoverystatus
    readledger rebuild-db-ledger-locations-index rebuild-db-ledgers-index recover
    regenerate-interleaved-storage-index-file triggeraudit updateBookieInLedger updatecookie
    updateledgers whatisinstanceid whoisauditor
"""
every_check = pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)


def test_the_ids_their_order_groups_and_severities_are_the_written_ones() -> None:
    written = [(name, group, severity) for group, ids in CATALOGUE.items() for name, severity in ids.items()]
    assert [(each.id, each.group, each.severity.value) for each in ALL] == written
    assert tuple(CATALOGUE) == GROUPS


def test_no_two_checks_share_an_id_or_alias() -> None:
    names = [name for each in ALL for name in (each.id, *each.aliases)]
    assert len(set(names)) == len(names)
    assert set(BY_ID) == set(names)


@every_check
def test_a_check_lives_in_the_module_of_its_name(each: Check) -> None:
    module = importlib.import_module(f"auditor.checks.{each.id.replace('-', '_')}")
    assert each in vars(module).values()
    assert each.find.__module__ == module.__name__


@every_check
def test_a_manual_page_is_whole(each: Check) -> None:
    assert tuple(each.sections) == SECTIONS
    assert each.title.endswith(".")
    assert all(text.endswith(".") for text in each.sections.values())
    assert len(each.title) <= 100


@every_check
def test_the_commands_of_a_manual_page_exist(each: Check) -> None:
    advice = each.sections["What to do"]
    commands = re.findall(r"`bookkeeper shell\s+([^\s`]+)", advice)
    assert set(commands) <= set(SHELL.split())
    assert commands or "ZooKeeper's own client" in advice


def test_a_check_without_a_section_cannot_be_made() -> None:
    def unfinished(tables: object) -> None:
        """It leaves sections out.

        What it finds:
            Something.
        """

    with pytest.raises(TypeError, match="Why it matters, What to do, Limits"):
        check(Severity.NOTE, group="storage")(unfinished)  # type: ignore[arg-type]


def test_a_check_of_no_group_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="of no group"):
        check(Severity.NOTE, group="weather")(ALL[0].find)  # type: ignore[arg-type]


def test_an_alias_leads_to_its_check() -> None:
    renamed = check(Severity.NOTE, group="storage", aliases=("old-word",))(ALL[0].find)
    assert (renamed.id, renamed.aliases) == (ALL[0].id, ("old-word",))
