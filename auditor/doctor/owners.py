"""Check whether the stores with owners of ledgers (such as topics) are readable and declared complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from auditor.doctor.sources import PlannedSources
from auditor.errors import StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.options import AuditOptions
from auditor.model.report import EXIT_UNREACHABLE
from auditor.reports.doctor import OWNERS_TOPIC, AnswerLine
from auditor.sources.metadata.store import MetadataStore, SiblingStore, Tree
from auditor.sources.metadata.stores import check_reachable, open_store, store_options
from auditor.sources.owners.applications import APPLICATIONS, OwnersUri


def check_owner_stores(sources: PlannedSources, options: AuditOptions) -> Iterator[AnswerLine]:
    """Yield a line for each store of ``--owners``, and one line about ``--owners-complete``.

    Args:
        sources: the sources of the audit, with the stores of both options.
        options: the limits and credentials for opening a store.
    """
    stores, complete_stores = sources.owners, sources.complete_owner_stores
    if stores:
        for store in stores:
            yield _access_line(store, options)
    named_stores = None if stores is None else {store.text for store in stores}
    if complete_stores and (named_stores is None or named_stores == {*complete_stores}):
        yield OWNERS_TOPIC.ok("complete", "the stores are declared complete (--owners-complete)")
    elif complete_stores:
        differing_stores = sorted({*complete_stores} ^ (named_stores or set()))
        text = f"--owners-complete and --owners contain different stores: {', '.join(differing_stores)}"
        yield OWNERS_TOPIC.warn(
            "complete",
            text,
            "pass each store with both options; otherwise no ledger is confirmed to be unowned",
        )
    elif stores:
        text = "no store is declared complete: no ledger will be confirmed to be unowned"
        yield OWNERS_TOPIC.not_asked(
            "complete", text, "pass --owners-complete for each store, if no other store has owners"
        )


def _access_line(store: OwnersUri, options: AuditOptions) -> AnswerLine:
    tree = APPLICATIONS[store.application].trees[0]
    uri = store.tree_uri(tree)
    try:
        check_reachable(uri)
        with closing(open_store(uri, store_options(options))) as opened_store:
            has_tree_data = _has_owners(opened_store, tree)
    except (StoreError, OSError) as error:
        return OWNERS_TOPIC.fail("access", f"{store.text}: {error}", None, EXIT_UNREACHABLE)
    if not has_tree_data:
        remedy_text = f"add the chroot above {tree} to the URI"
        return OWNERS_TOPIC.fail(
            "access", f"{store.text}: contains no data of {store.application}", remedy_text, EXIT_UNREACHABLE
        )
    return OWNERS_TOPIC.ok("access", f"{store.text}: {tree} can be read")


def _has_owners(store: MetadataStore, tree: str) -> bool:
    """Return whether the store contains the tree ``tree``.

    A saved store is already opened at the root of this tree. So the tree exists if the store has any znode.
    """
    if store.live:
        return isinstance(store, SiblingStore) and store.has_sibling(tree)
    parts = store.parts(Tree.WHOLE, LayoutKind.HIERARCHICAL, 1)
    return any(len(batch.paths) > 0 for part in parts for batch in store.read(part))
