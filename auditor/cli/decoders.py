"""Decoders of ``bkaudit decode`` for formats whose values must be converted for JSON.

Each function takes the bytes of a file, or the open file, and returns a value that JSON can represent.
Ledger ids become text, because JSON numbers cannot hold them exactly. `auditor.cli.decode` lists the
functions.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from auditor.cli.decode import to_json_value
from auditor.codecs.availability import coverage
from auditor.codecs.availability import wire as availability
from auditor.codecs.availability.fold import fold_slots, ledger_sets
from auditor.codecs.availability.groups import GROUP
from auditor.codecs.bookie import entry, index_file
from auditor.codecs.bookie import wire as bookie_wire
from auditor.codecs.bookie.entry_log import HEADER_BYTES, HEADER_NUMBERS_BYTES
from auditor.codecs.bookie.journal import EXPLICIT_LAC, FENCE, MASTER_KEY, Journal, Records
from auditor.codecs.pulsar import managed_cursor
from auditor.codecs.store import layout, service_info
from auditor.errors import DecodeError
from auditor.sources.bookies.entry_logs.reader import contents_of

_MAX_LEDGERS_SHOWN = 10


def decode_layout(file_content: bytes) -> Any:
    """Return the content of a LAYOUT znode, and the kind of layout that it describes."""
    layout_value = layout.decode(file_content)
    return {**to_json_value(layout_value), "kind": layout_value.kind}


def decode_service_info(file_content: bytes, bookie_id: str | None) -> Any:
    """Return the endpoints in a bookie's registration.

    If the registration has no data, ``bookie_id`` is taken as the address of the only endpoint. It is None
    if the bookie id is unknown.
    """
    return service_info.decode(file_content, bookie_id or "")


def decode_availability(file_content: bytes, java: bool, entries: bool) -> Any:
    """Return the groups in a BP-34 list, in which a bookie lists its entries of one ledger.

    A group is a run of consecutive entries that repeats at a fixed distance.

    Args:
        file_content: The encoded list.
        java: Whether to decode as the server's Java class does, and repeat the errors of that class.
        entries: Whether to list each single entry in addition to the groups.
    """
    if java:
        java_decoded_list = availability.decode(file_content, mode="java")
        described_groups = {"groups": java_decoded_list.groups, "total": java_decoded_list.total}
        return (
            {**described_groups, "entries": java_decoded_list.entries(availability.MAX_EXPANDED_RUNS)}
            if entries
            else described_groups
        )
    return _describe_groups(availability.decode(file_content), entries)


def decode_index(file_content: bytes, entries: bool) -> Any:
    """Return the header of an index file, and the entries that have a location in the file, as BP-34 groups.

    If ``entries`` is True, the result also lists each entry.
    """
    index_header = index_file.decode_header(file_content)
    index_slot_count, remaining_bytes = divmod(len(file_content) - index_file.HEADER_BYTES, 8)
    index_slots = np.frombuffer(file_content, ">i8", count=index_slot_count, offset=index_file.HEADER_BYTES)
    groups = fold_slots(index_slots, np.array([0, index_slot_count]))
    return {
        "header": index_header,
        "columns_of_groups": GROUP.names,
        **_describe_groups(np.frombuffer(groups.tobytes(), GROUP), entries),
        "bytes_of_a_cut_slot": remaining_bytes,
    }


def decode_bookie_frame(file_content: bytes, entries: bool) -> Any:
    """Return a bookie's answer to a request for the list of its entries of a ledger.

    ``file_content`` is the frame with its length prefix. If ``entries`` is True, the result also lists each
    entry.
    """
    prefix_bytes = bookie_wire.LENGTH.size
    body_bytes = bookie_wire.frame_length(file_content[:prefix_bytes])
    if len(file_content) != prefix_bytes + body_bytes:
        end_offset = min(len(file_content), prefix_bytes + body_bytes)
        raise DecodeError(
            "bookie's answer",
            end_offset,
            f"a frame of {body_bytes} bytes, {len(file_content) - prefix_bytes} present",
        )
    answer_offset = prefix_bytes
    try:
        answer = bookie_wire.list_answer(file_content[prefix_bytes:])
        answer_offset += answer.availability_offset
        listed_groups = None if answer.availability is None else availability.decode(answer.availability)
    except DecodeError as damage_error:
        raise DecodeError(
            damage_error.what, answer_offset + damage_error.offset, damage_error.reason
        ) from damage_error
    return {
        "txn_id": answer.txn_id,
        "status": bookie_wire.status_text(answer.status),
        "ledger_id": None if answer.ledger_id is None else str(answer.ledger_id),
        "availability": None if listed_groups is None else _describe_groups(listed_groups, entries),
    }


def decode_entry(file_content: bytes) -> Any:
    """Return the header of an entry, without its payload."""
    entry_header = entry.decode_header(file_content)
    return {
        "version": entry_header.version,
        "scope_id": str(entry_header.ledger.scope),
        "ledger_id": str(entry_header.ledger.id),
        "ledger_qualified_name": entry_header.ledger.qualified_name,
        "entry_id": entry_header.entry_id,
        "last_add_confirmed": entry_header.last_add_confirmed,
        "length": entry_header.length,
        "digest_type": entry_header.digest_type,
        "header_bytes": entry_header.header_bytes,
    }


def decode_entry_log(file: BinaryIO) -> Any:
    """Return the header of an entry log, its sizes in bytes, and the largest ledgers in it.

    The bytes of each ledger come from the ledgers map. If the log has no map, they come from the headers of
    all entries.

    Servers before 4.16.7 and 4.17.2 left parts of their memory in the header of an open log (bookkeeper
    #4607). Header bytes that should be zero then have other values. The entries of such a log are not
    damaged. A server that cannot use the header scans the entries instead. For such a log, this function
    accepts a ledgers map that cannot be read.
    """
    with _seekable_copy(file) as seekable_file:
        contents = contents_of(
            lambda offset, length: _read_part(seekable_file, offset, length), _file_size(seekable_file)
        )
        has_uninitialised_bytes = any(_read_part(seekable_file, 0, HEADER_BYTES)[HEADER_NUMBERS_BYTES:])
    for damage_error in (contents.damage, contents.map_damage):
        if damage_error is not None and not (
            damage_error is contents.map_damage and contents.is_map_unreadable and has_uninitialised_bytes
        ):
            raise damage_error
    ledger_sizes = [
        *zip(contents.ledger_ids.tolist(), contents.bytes.tolist(), contents.scope_ids.tolist(), strict=True)
    ]
    largest_ledgers = sorted(ledger_sizes, key=lambda ledger_bytes: (-ledger_bytes[1], ledger_bytes[0]))[
        :_MAX_LEDGERS_SHOWN
    ]
    return {
        "header": contents.header,
        "direct": contents.is_direct,
        "counted_by": contents.bytes_source,
        "bytes": {
            "header": contents.header_bytes,
            "entries": contents.entry_bytes,
            "padding": contents.padding_bytes,
            "map": contents.map_bytes,
            "tail": contents.tail_bytes,
            "file": contents.size,
        },
        "entries": int(contents.entries.sum()) if len(contents.entries) else None,
        "ledgers": len(ledger_sizes),
        "largest": [
            {"scope_id": str(scope), "ledger_id": str(ledger), "bytes": size}
            for ledger, size, scope in largest_ledgers
        ],
        "cut": contents.is_cut,
        "map_damage": None if contents.map_damage is None else str(contents.map_damage),
    }


def decode_journal(file: BinaryIO, entries: bool) -> Any:
    """Return the number of records of each kind in a journal, and the entries of each ledger in it.

    Payloads are not read, because a journal can have gigabytes. If ``entries`` is True, the result lists
    every entry of every ledger. Otherwise it has only BP-34 groups of entries, and only for the ledgers with
    the most entries.
    """
    with _seekable_copy(file) as seekable_file:
        journal = Journal.open(
            lambda offset, length: _read_part(seekable_file, offset, length), _file_size(seekable_file)
        )
        record_batches = list(journal.records())
    if journal.is_cut and journal.end == 0:
        # Version 1 has no header, so that any bytes look like the start of its first record.
        raise DecodeError("journal", 0, "neither a journal header nor a complete record")
    entry_ids = np.concatenate([np.empty(0, np.int64), *(records.entry_ids for records in record_batches)])
    entry_id_by_record_kind = {"master_keys": MASTER_KEY, "fences": FENCE, "explicit_lacs": EXPLICIT_LAC}
    ledger_rows = list(_entry_rows_by_scope([records.entries() for records in record_batches], entries))
    return {
        "version": journal.version,
        "records": len(entry_ids),
        "entries": sum(len(records.entries().entry_ids) for records in record_batches),
        **{name: int((entry_ids == kind).sum()) for name, kind in entry_id_by_record_kind.items()},
        "end": journal.end,
        "cut": journal.is_cut,
        "ledgers": len(ledger_rows),
        "largest": sorted(ledger_rows, key=lambda row: -row["total"])[
            : None if entries else _MAX_LEDGERS_SHOWN
        ],
    }


def _entry_rows_by_scope(batches: Sequence[Records], entries: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each pair of scope and ledger id, the two halves of a 128-bit ledger id.

    The lower half alone does not identify a ledger, because two scopes can have the same ledger id.
    """
    scope_ids = np.concatenate([np.empty(0, np.int64), *(batch.scope_ids for batch in batches)])
    for scope_id in np.unique(scope_ids).tolist():
        masks_by_batch = [(batch, batch.scope_ids == scope_id) for batch in batches]
        ledger_ids, entry_sets = ledger_sets(
            np.concatenate([batch.ledger_ids[is_in_scope] for batch, is_in_scope in masks_by_batch]),
            np.concatenate([batch.entry_ids[is_in_scope] for batch, is_in_scope in masks_by_batch]),
        )
        for ledger_id, packed_groups in zip(ledger_ids.tolist(), entry_sets.values(), strict=True):
            groups = _describe_groups(np.frombuffer(packed_groups, GROUP), entries)
            yield {"scope_id": str(scope_id), "ledger_id": str(ledger_id), **groups}


@contextmanager
def _seekable_copy(file: BinaryIO) -> Iterator[BinaryIO]:
    if file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as temporary_copy:
        shutil.copyfileobj(file, temporary_copy)
        yield temporary_copy


def _file_size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _read_part(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _describe_groups(groups: Any, entries: bool) -> dict[str, Any]:
    """Return BP-34 groups as [first_start, last_start, size, period], and the number of entries in them.

    If ``entries`` is True, the result also lists each entry.
    """
    described_groups = {"groups": groups.tolist(), "total": coverage.count(groups)}
    return (
        {**described_groups, "entries": availability.expand(groups).tolist()} if entries else described_groups
    )


def decode_cursor(file_content: bytes) -> Any:
    """Return the content of a cursor's znode.

    ``compacted_ledger`` is None if the cursor names no compacted ledger.
    """
    content = managed_cursor.decode(file_content)
    ledger_by_bucket = {name: str(ledger) for name, ledger in content.buckets.items()}
    return {
        **to_json_value(content),
        "buckets": ledger_by_bucket,
        "compacted_ledger": content.compacted_ledger,
    }


def decode_cursor_position(file_content: bytes) -> Any:
    """Return the cursor position that one entry of a cursor's ledger stores.

    ``compacted_ledger`` is None if the entry names no compacted ledger.
    """
    position = managed_cursor.decode_position(file_content)
    return {**to_json_value(position), "compacted_ledger": position.compacted_ledger}
