"""The sample cluster can be unpacked by every Python version that the program supports."""

from __future__ import annotations

import tarfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.demo.sample import FindingKey, compare_findings, expected_findings, extract, unpack_sample

WRITTEN = 1_795_000_000_000


def test_sample_is_extracted_by_a_python_without_tar_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python has tar filters since 3.11.4; Debian 12 has 3.11.2."""
    whole = tarfile.TarFile.extractall

    def without_filter(archive: tarfile.TarFile, path: str, members: None = None) -> None:
        whole(archive, path, members)

    monkeypatch.setattr(tarfile.TarFile, "extractall", without_filter)
    monkeypatch.delattr(tarfile, "data_filter")
    cluster = unpack_sample(tmp_path, WRITTEN)
    versions = sorted(cluster.bookies.glob("*/*/current/VERSION"))
    assert len(versions) >= 4
    assert {path.stat().st_mtime_ns for path in versions} == {WRITTEN * 1_000_000}


def test_extraction_with_tar_filters_refuses_a_path_outside_the_directory(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "file").write_text("x")
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.add(tmp_path / "file", "../outside")
    filtered = hasattr(tarfile, "data_filter")
    with pytest.raises(tarfile.OutsideDestinationError) if filtered else nullcontext():
        extract(tmp_path / "bad.tar", inside)
    assert (tmp_path / "outside").exists() != filtered


@pytest.mark.parametrize("has_earlier_run", [False, True])
def test_finding_that_needs_an_earlier_run_is_expected_only_with_an_earlier_run(
    has_earlier_run: bool,
) -> None:
    changes: Any = object() if has_earlier_run else None
    report: Any = SimpleNamespace(run=SimpleNamespace(changes=changes))
    stuck: FindingKey = ("orphan-stuck", None, "127.0.101.1:3181")
    lost: FindingKey = ("entry-lost", "999", None)
    expected, [absent, *present_keys] = expected_findings(), sorted(expected_findings(), key=str)
    assert expected == {absent, *present_keys}
    result = compare_findings(report, {*present_keys, stuck, lost})
    assert result.missing_findings == [absent]
    assert result.unexpected_findings == ([lost] if has_earlier_run else [lost, stuck])
