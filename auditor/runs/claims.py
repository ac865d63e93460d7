"""Whose a ledger was, by the path that its custom metadata names."""

from __future__ import annotations

from auditor.keys.pulsar import MANAGED_LEDGERS, SCHEMAS, Names, names_of


def names_of_claim(claim: str) -> Names | None:
    """Tenant, namespace, topic and cursor of a claim, below whatever chroot; None of another application's.

    >>> names = names_of_claim("/east/managed-ledgers/shop/orders/persistent/returns/audit")
    >>> (names.tenant, names.namespace, names.topic, names.cursor)
    ('shop', 'orders', 'returns', 'audit')
    >>> names_of_claim("/elsewhere") is None
    True
    """
    for tree in (MANAGED_LEDGERS, SCHEMAS):
        _, found, below = claim.partition(f"/{tree}/")
        if found:
            return names_of(f"{tree}/{below}")
    return None
