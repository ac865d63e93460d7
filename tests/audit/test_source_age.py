"""Collections that are too old, or dated in the future, to prove that a bookie lacks data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from auditor.audit import source_age
from auditor.audit.source_age import MAX_SOURCE_AGE_MS, collection_times, find_old_sources

SCAN = 1_795_237_669_000
HOUR = 3_600_000


def bookies(*made_times: int | None) -> Any:
    """Return bookies a, b ..., each with an index in a collection of this time; None: in no collection."""
    names = "abcdefgh"[: len(made_times)]
    manifests = [
        (f"/collected/{name}", SimpleNamespace(id=f"id-{name}", made=time))
        for name, time in zip(names, made_times, strict=True)
        if time is not None
    ]
    owners = {f"id-{name}:0": SimpleNamespace(bookie_id=f"{name}:1") for name in names}
    return SimpleNamespace(
        collection_places=SimpleNamespace(readable_collections=manifests),
        directory_owners=SimpleNamespace(owner_by_piece_id=owners),
        members=[],
    )


def old_sources(now_ms: int, *made_times: int | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(source_age, "now_ms", lambda: now_ms)
    first: Any = SimpleNamespace(source=SimpleNamespace(scan_time=SCAN))
    indexes: Any = SimpleNamespace(bookies=bookies(*made_times))
    return find_old_sources(first, indexes)


@pytest.mark.parametrize(
    ("made_ms", "reason"),
    [
        (SCAN, None),
        (SCAN - MAX_SOURCE_AGE_MS, None),
        (SCAN - MAX_SOURCE_AGE_MS - 1, "before the metadata"),
        # Later than a saved scan: it shows more than the metadata, never less.
        (SCAN + 2 * HOUR, None),
        (SCAN + 3 * HOUR + 1, "after this audit; a clock was wrong"),
    ],
)
def test_age_of_a_collection_follows_its_manifest(
    made_ms: int, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = old_sources(SCAN + 2 * HOUR, made_ms, SCAN, monkeypatch=monkeypatch)
    assert list(reasons) == ([] if reason is None else ["a:1"])
    assert reason is None or reason in reasons["a:1"]


def test_oldest_collection_of_a_bookie_sets_its_time() -> None:
    several = bookies(SCAN, SCAN - 1, None)
    several.directory_owners.owner_by_piece_id = dict.fromkeys(
        several.directory_owners.owner_by_piece_id, SimpleNamespace(bookie_id="a:1")
    )
    assert collection_times(several) == {"a:1": SCAN - 1}
    assert collection_times(bookies(None)) == {}
