"""The kinds of file that ``bkaudit decode`` knows: one row each, whose code is loaded when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIMIT = 256 * 1024 * 1024
"""Bytes kept of one file: the index of a ledger with 30 million entries."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a decoder is, as ``module:function``, and the names of the settings it takes besides.

    The function takes bytes and returns a value; with ``by_parts`` it takes the open file instead, and reads
    what it needs of it. A codec whose value can be shown as it is needs no function of its own.
    """

    function: str
    settings: tuple[str, ...] = ()
    by_parts: bool = False

    @property
    def decode(self) -> Callable[..., Any]:
        """The function, from its module."""
        module, _, name = self.function.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found


KINDS = {
    "ledger-metadata": Kind("auditor.codecs.ledger_metadata.one:decode"),
    "cookie": Kind("auditor.codecs.bookie.cookie:decode"),
    "availability": Kind("auditor.cli.decoders:decode_availability", ("java", "entries")),
    "index": Kind("auditor.cli.decoders:decode_index", ("entries",)),
    "bookie-frame": Kind("auditor.cli.decoders:decode_bookie_frame", ("entries",)),
    "entry-log": Kind("auditor.cli.decoders:decode_entry_log", by_parts=True),
    "journal": Kind("auditor.cli.decoders:decode_journal", ("entries",), by_parts=True),
    "entry": Kind("auditor.cli.decoders:decode_entry"),
    "ledger-data": Kind("auditor.codecs.bookie.ledger_data:decode"),
    "last-mark": Kind("auditor.codecs.bookie.last_mark:decode"),
    "layout": Kind("auditor.cli.decoders:decode_layout"),
    "service-info": Kind("auditor.cli.decoders:decode_service_info", ("bookie_id",)),
    "mark": Kind("auditor.codecs.store.underreplication:decode_mark"),
    "lock": Kind("auditor.cli.decoders:decode_lock"),
    "vote": Kind("auditor.cli.decoders:decode_vote"),
    "replication-layout": Kind("auditor.codecs.store.underreplication:decode_layout"),
    "check-all-ledgers-time": Kind("auditor.cli.decoders:decode_check_all_ledgers_time"),
    "placement-policy-check-time": Kind("auditor.cli.decoders:decode_placement_policy_check_time"),
    "replicas-check-time": Kind("auditor.cli.decoders:decode_replicas_check_time"),
    "pulsar-managed-ledger": Kind("auditor.cli.owner_decoders:decode_managed_ledger"),
    "pulsar-cursor": Kind("auditor.cli.owner_decoders:decode_cursor"),
    "pulsar-cursor-position": Kind("auditor.cli.owner_decoders:decode_cursor_position"),
    "pulsar-schema-locator": Kind("auditor.cli.owner_decoders:decode_schema_locator"),
    "log-segment": Kind("auditor.cli.owner_decoders:decode_log_segment"),
    "log-allocation": Kind("auditor.cli.owner_decoders:decode_log_allocation"),
}
