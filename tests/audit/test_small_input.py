"""Java is started for a small audit where what was saved is small, and known to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.audit.small_input import SMALL_BYTES, is_small
from auditor.sources.metadata.uri import parse_metadata_uri


def small(uri: str) -> bool:
    return is_small(parse_metadata_uri(uri))


def test_a_dump_is_small_up_to_the_bound(tmp_path: Path) -> None:
    dump = tmp_path / "metadata.jsonl"
    dump.write_bytes(bytes(SMALL_BYTES))
    assert small(f"dump://{dump}")
    dump.write_bytes(bytes(SMALL_BYTES + 1))
    assert not small(f"dump://{dump}")


def test_all_files_of_a_server_count(tmp_path: Path) -> None:
    for name in ("snapshot.1", "log.2"):
        (tmp_path / name).write_bytes(bytes(SMALL_BYTES // 2))
    assert small(f"zk-snapshot://{tmp_path}?root=/ledgers")
    (tmp_path / "log.3").write_bytes(b"1")
    assert not small(f"zk-snapshot://{tmp_path}?root=/ledgers")


@pytest.mark.parametrize("uri", ["zk://h1:2181/ledgers", "etcd://h1:2379/scope", "dump:///not/there.jsonl"])
def test_what_cannot_be_seen_is_not_small(uri: str) -> None:
    assert not small(uri)
