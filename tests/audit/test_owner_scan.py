"""Where owners are looked for, and what is said where there are none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from auditor.audit.owner_scan import Owners, check_owners, owner_remarks, read_owners
from auditor.errors import StoreError, UsageError
from auditor.model.options import AuditOptions
from auditor.model.run_facts import sentence_of
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.sources.owners.applications import NONE_VALUE


def scan(
    owners: str | None = None, *, empty: bool = False, beside: bool | str = False, refused: str | None = None
) -> Owners:
    """A scan of a store that has an application's tree beside its root, has not, or does not say."""

    def has_sibling(name: str) -> bool:
        if isinstance(beside, str):
            raise StoreError(beside)
        return beside and name == "managed-ledgers"

    def write_table(*_: Any) -> None:
        if refused is not None:
            raise StoreError(refused)

    run = SimpleNamespace(remove=lambda name: None)
    stores = frozenset() if empty else frozenset({owners})
    cache = SimpleNamespace(distinct_values=lambda *_: stores, write_table=write_table, run=run)
    store = SimpleNamespace(has_sibling=has_sibling)
    uri = parse_metadata_uri("zk://h1:2181/east/ledgers")
    source = SimpleNamespace(cache=cache, store=store, uri=uri, live=True)
    return read_owners(cast(Any, source), AuditOptions(owners=owners or ()))


def test_the_metadatas_own_store_is_looked_at_and_no_other() -> None:
    assert scan(beside=True).names == ("pulsar:zk://h1:2181/east",)
    assert scan(beside=False).stores == ()
    assert scan(NONE_VALUE, beside=True).stores == ()


def test_a_store_that_does_not_say_leaves_a_note() -> None:
    unsure = scan(beside="session lost")
    assert unsure.stores == ()
    [found] = owner_remarks(unsure, cast(Any, None))
    assert "session lost" in sentence_of(found)


def test_owners_that_may_not_be_read_end_an_audit_only_where_they_were_asked_for() -> None:
    unread = scan(beside=True, refused="not authorised to read /managed-ledgers")
    assert unread.stores == ()
    [found] = owner_remarks(unread, cast(Any, None))
    assert "not authorised" in sentence_of(found)
    with pytest.raises(StoreError, match="not authorised"):
        scan("pulsar:zk://h1:2181", refused="not authorised to read /managed-ledgers")


def test_a_place_that_was_named_and_has_no_owners_is_an_error() -> None:
    with pytest.raises(StoreError, match="the store has no data of pulsar"):
        scan("pulsar:dump:///saved.jsonl", empty=True)
    assert scan(beside=True, empty=True).stores  # an application that is new has none yet


@pytest.mark.parametrize("owners", ["zk://h1:2181", "pulsar:zk://", ["pulsar:zk://h1", NONE_VALUE]])
def test_what_cannot_be_meant_is_refused_before_anything_is_read(owners: str | list[str]) -> None:
    with pytest.raises(UsageError):
        check_owners(AuditOptions(owners=owners))
    with pytest.raises(UsageError):
        check_owners(AuditOptions(owners_complete=owners))
    check_owners(AuditOptions(owners=NONE_VALUE))
    check_owners(AuditOptions())
