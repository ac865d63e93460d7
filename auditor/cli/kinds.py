"""The kinds of file that ``bkaudit decode`` knows; a decoder's module is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIMIT = 256 * 1024 * 1024
"""Bytes read of one file: the index of a ledger with 30 million entries."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A function from bytes to a value, and the names of the settings it takes besides."""

    decode: Callable[..., Any]
    settings: tuple[str, ...] = ()


def _ledger_metadata(data: bytes) -> Any:
    from auditor.codecs import ledger_metadata

    return ledger_metadata.decode(data)


def _cookie(data: bytes) -> Any:
    from auditor.codecs import cookie

    return cookie.decode(data)


def _layout(data: bytes) -> Any:
    from auditor.codecs import layout

    value = layout.decode(data)
    return {
        "format_version": value.format_version,
        "manager": value.manager,
        "manager_version": value.manager_version,
        "kind": value.kind,
    }


def _service_info(data: bytes, bookie_id: str | None) -> Any:
    from auditor.codecs import service_info

    return service_info.decode(data, bookie_id or "")


def _mark(data: bytes) -> Any:
    from auditor.codecs import underreplication

    return underreplication.decode_mark(data)


def _lock(data: bytes) -> Any:
    from auditor.codecs import underreplication

    return {"owner": underreplication.decode_lock(data)}


def _vote(data: bytes) -> Any:
    from auditor.codecs import underreplication

    return {"bookie_id": underreplication.decode_vote(data)}


def _replication_layout(data: bytes) -> Any:
    from auditor.codecs import underreplication

    return underreplication.decode_layout(data)


def _check_all_ledgers_time(data: bytes) -> Any:
    from auditor.codecs import underreplication

    return {"time": underreplication.decode_check_all_ledgers_time(data)}


def _placement_policy_check_time(data: bytes) -> Any:
    from auditor.codecs import underreplication

    return {"time": underreplication.decode_placement_policy_check_time(data)}


def _replicas_check_time(data: bytes) -> Any:
    from auditor.codecs import underreplication

    return {"time": underreplication.decode_replicas_check_time(data)}


def _last_mark(data: bytes) -> Any:
    from auditor.codecs import last_mark

    return last_mark.decode(data)


def _availability(data: bytes, java: bool, entries: bool) -> Any:
    from auditor.codecs import availability

    if java:
        answer = availability.decode(data, mode="java")
        return {"groups": answer.groups, "total": answer.total}
    return _groups(availability.decode(data), entries)


def _index(data: bytes, entries: bool) -> Any:
    import numpy as np

    from auditor.codecs import index_file
    from auditor.codecs.fold import fold_slots

    header = index_file.decode_header(data)
    whole, rest = divmod(len(data) - index_file.HEADER_BYTES, 8)
    slots = np.frombuffer(data, ">i8", count=whole, offset=index_file.HEADER_BYTES)
    found = fold_slots(slots, np.array([0, whole]))
    return {
        "header": header,
        **_groups(np.frombuffer(found.tobytes(), _group_type()), entries),
        "bytes_of_a_cut_slot": rest,
    }


def _group_type() -> Any:
    from auditor.codecs.groups import GROUP

    return GROUP


def _groups(groups: Any, entries: bool) -> dict[str, Any]:
    """Groups as [first_start, last_start, size, period], and how many entries they stand for."""
    from auditor.codecs import availability, coverage

    shown = {"groups": groups.tolist(), "total": coverage.count(groups)}
    return {**shown, "entries": availability.expand(groups).tolist()} if entries else shown


KINDS = {
    "ledger-metadata": Kind(_ledger_metadata),
    "cookie": Kind(_cookie),
    "availability": Kind(_availability, ("java", "entries")),
    "index": Kind(_index, ("entries",)),
    "last-mark": Kind(_last_mark),
    "layout": Kind(_layout),
    "service-info": Kind(_service_info, ("bookie_id",)),
    "mark": Kind(_mark),
    "lock": Kind(_lock),
    "vote": Kind(_vote),
    "replication-layout": Kind(_replication_layout),
    "check-all-ledgers-time": Kind(_check_all_ledgers_time),
    "placement-policy-check-time": Kind(_placement_policy_check_time),
    "replicas-check-time": Kind(_replicas_check_time),
}
