"""Java is started for a small audit if saved metadata is small, or if a running store reports few ledgers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from auditor.audit import audit
from auditor.audit.audit import MAX_SMALL_BYTES, MAX_SMALL_LEDGERS, is_small_audit
from auditor.errors import StoreError
from auditor.model.ledger_id import LayoutKind
from auditor.model.options import AuditOptions
from auditor.sources.metadata.store import ClusterNodes, LedgerCount, StoreOptions
from auditor.sources.metadata.uri import MetadataUri, parse_metadata_uri


def small(uri: str) -> bool:
    return is_small_audit(parse_metadata_uri(uri), AuditOptions(timeout=0.5))


def test_a_dump_is_small_up_to_the_bound(tmp_path: Path) -> None:
    dump = tmp_path / "metadata.jsonl"
    dump.write_bytes(bytes(MAX_SMALL_BYTES))
    assert small(f"dump://{dump}")
    dump.write_bytes(bytes(MAX_SMALL_BYTES + 1))
    assert not small(f"dump://{dump}")


def test_all_snapshot_and_log_files_count_toward_the_size(tmp_path: Path) -> None:
    for name in ("snapshot.1", "log.2"):
        (tmp_path / name).write_bytes(bytes(MAX_SMALL_BYTES // 2))
    assert small(f"zk-snapshot://{tmp_path}?root=/ledgers")
    (tmp_path / "log.3").write_bytes(b"1")
    assert not small(f"zk-snapshot://{tmp_path}?root=/ledgers")


def test_missing_dump_is_not_small() -> None:
    assert not small("dump:///not/there.jsonl")


class RunningStore:
    """A stub of a running store that is sufficient to choose its layout."""

    nodes = ClusterNodes({}, 0, "0x1")

    def cluster(self) -> ClusterNodes:
        return self.nodes

    def close(self) -> None:
        self.nodes = replace(self.nodes, scan_time=1)


@pytest.mark.parametrize(
    ("ledgers", "is_small"), [(MAX_SMALL_LEDGERS, True), (MAX_SMALL_LEDGERS + 1, False), (None, False)]
)
def test_running_store_is_small_up_to_max_small_ledgers(
    ledgers: int | None, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None stands for a store that fails during the count."""
    store = RunningStore()

    def count(uri: MetadataUri, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
        assert (uri.root, layout, options.timeout_s) == ("/ledgers", LayoutKind.HIERARCHICAL, 0.5)
        if ledgers is None:
            raise StoreError("gone")
        return LedgerCount(ledgers, is_exact=False)

    monkeypatch.setattr(audit, "open_store", lambda *_: store)
    monkeypatch.setattr(audit, "choose_layout", lambda *_: (LayoutKind.HIERARCHICAL, "it says so"))
    monkeypatch.setattr(audit, "count_ledgers", count)
    assert small("zk://h1:2181/ledgers") is is_small
    assert store.nodes.scan_time == 1  # it was closed


def test_unreachable_store_fails_the_size_check() -> None:
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1"):
        small("zk://127.0.0.1:1/ledgers")
