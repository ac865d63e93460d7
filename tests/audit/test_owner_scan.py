"""The places where an audit looks for owners, and its messages if there are none."""

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
    owners: str | None = None, *, empty: bool = False, sibling: bool | str = False, refused: str | None = None
) -> Owners:
    """Scan a store: its root has an application's tree beside it, has none, or cannot be checked for one."""

    def has_sibling(name: str) -> bool:
        if isinstance(sibling, str):
            raise StoreError(sibling)
        return sibling and name == "managed-ledgers"

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


def test_owners_are_searched_by_default_only_in_the_metadata_store() -> None:
    assert scan(sibling=True).names == ("pulsar:zk://h1:2181/east",)
    assert scan(sibling=False).stores == ()
    assert scan(NONE_VALUE, sibling=True).stores == ()


def test_failed_search_for_owners_leaves_a_notice() -> None:
    unsure = scan(sibling="session lost")
    assert unsure.stores == ()
    [remark] = owner_remarks(unsure, cast(Any, None))
    assert "session lost" in sentence_of(remark)


def test_unreadable_owners_end_an_audit_only_if_they_were_requested() -> None:
    unread = scan(sibling=True, refused="not authorised to read /managed-ledgers")
    assert unread.stores == ()
    [remark] = owner_remarks(unread, cast(Any, None))
    assert "not authorised" in sentence_of(remark)
    with pytest.raises(StoreError, match="not authorised"):
        scan("pulsar:zk://h1:2181", refused="not authorised to read /managed-ledgers")


def test_requested_store_without_owners_is_an_error() -> None:
    with pytest.raises(StoreError, match="the store has no data of pulsar"):
        scan("pulsar:dump:///saved.jsonl", empty=True)
    assert scan(sibling=True, empty=True).stores  # an application that is new has none yet


@pytest.mark.parametrize("owners", ["zk://h1:2181", "pulsar:zk://", ["pulsar:zk://h1", NONE_VALUE]])
def test_invalid_owners_option_is_a_usage_error(owners: str | list[str]) -> None:
    with pytest.raises(UsageError):
        check_owners(AuditOptions(owners=owners))
    with pytest.raises(UsageError):
        check_owners(AuditOptions(owners_complete=owners))
    check_owners(AuditOptions(owners=NONE_VALUE))
    check_owners(AuditOptions())
