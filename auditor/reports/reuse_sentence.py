"""What an audit took from an earlier run, in a sentence."""

from __future__ import annotations

from auditor.model.report import Reuse


def reuse_sentence(taken: Reuse) -> str:
    """
    >>> reuse_sentence({"run": "monday", "indexes": {"reused": 29_700, "read": 300},
    ...         "ledgers": {"reused": 0, "read": 10_000}, "notes": []})
    '29,700 of 30,000 indexes and 0 of 10,000 ledgers as in monday'
    """
    indexes, ledgers = taken["indexes"], taken["ledgers"]
    return (
        f"{indexes['reused']:,} of {indexes['reused'] + indexes['read']:,} indexes and "
        f"{ledgers['reused']:,} of {ledgers['reused'] + ledgers['read']:,} ledgers as in {taken['run']}"
    )
