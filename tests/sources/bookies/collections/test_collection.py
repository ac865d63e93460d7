"""Tests of a manifest, and of every way in which a collection can have less than its manifest lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from auditor.collect.collect import collect
from auditor.errors import UnreadError
from auditor.sources.bookies.collections.collection import CollectedFile, Collection, CollectionManifest
from tests.sources.bookie_corpora import unpack_bookies


@pytest.fixture
def made(tmp_path: Path) -> Path:
    root = unpack_bookies("flat-v1", tmp_path)
    return Path(collect([str(root)], str(tmp_path / "out")).path)


def failure(path: Path) -> str:
    collection = Collection(str(path))
    with pytest.raises(UnreadError) as error:
        collection.verify(collection.manifest())
    assert error.value.path == str(path)
    return error.value.reason


def change_manifest(path: Path, change: dict[str, Any]) -> Path:
    manifest = json.loads((path / "collection.json").read_text())
    (path / "collection.json").write_text(json.dumps(manifest | change))
    return path


def test_complete_collection_passes_verification(made: Path) -> None:
    collection = Collection(str(made))
    collection.verify(collection.manifest())


def test_missing_file_of_a_collection_is_reported(made: Path) -> None:
    (made / "availability/part-00000.parquet").unlink()
    assert failure(made) == "availability/part-00000.parquet is missing"


def test_cut_file_of_a_collection_is_reported(made: Path) -> None:
    file = made / "availability/part-00000.parquet"
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    assert (
        failure(made)
        == f"availability/part-00000.parquet has {len(data) - 1} bytes; collection.json lists {len(data)}"
    )


def test_file_with_a_different_row_count_is_reported(made: Path) -> None:
    file = made / "availability/part-00000.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    manifest = json.loads((made / "collection.json").read_text())
    manifest["tables"]["availability"]["files"][0]["bytes"] = file.stat().st_size
    change_manifest(made, manifest)
    rows = table.num_rows
    assert (
        failure(made) == f"availability/part-00000.parquet has {rows - 1} rows; collection.json lists {rows}"
    )


def test_unreadable_parquet_footer_is_reported(made: Path) -> None:
    file = made / "entry_logs/part-00000.parquet"
    file.write_bytes(bytes(file.stat().st_size))
    assert failure(made).startswith("entry_logs/part-00000.parquet cannot be read: ")


def test_unfinished_collection_is_reported(made: Path) -> None:
    (made / "collection.json").unlink()
    assert failure(made) == "was not finished: it has no collection.json"


def test_files_outside_the_manifest_are_ignored(made: Path) -> None:
    (made / "availability/part-00001.parquet").write_bytes(b"left behind")
    collection = Collection(str(made))
    collection.verify(collection.manifest())


@pytest.mark.parametrize(
    ("change", "error_text"),
    [
        (
            {"schema": "bookkeeper-auditor/collection/2"},
            "'bookkeeper-auditor/collection/2'; this version",
        ),
        ({"schema": None}, "schema None"),
        ({"tables": {}}, "'places'"),
        ({"tables": []}, "damaged"),
        ({"made": "today"}, "'today' is not a valid count or time"),
        ({"finished": -1}, "-1 is not a valid count or time"),
        ({"made": True}, "True is not a valid count or time"),
        ({"id": ""}, "must be text"),
        ({"sources": [1]}, "must be text"),
        ({"sources": None}, "damaged"),
    ],
)
def test_manifest_with_invalid_values_is_rejected(
    made: Path, change: dict[str, Any], error_text: str
) -> None:
    assert error_text in failure(change_manifest(made, change))


@pytest.mark.parametrize(
    "path",
    [
        "../else.parquet",
        "availability/../../x.parquet",
        "/etc/x.parquet",
        "cookies/0.parquet",
        "availability/x",
    ],
)
def test_manifest_path_outside_its_table_is_rejected(made: Path, path: str) -> None:
    manifest = json.loads((made / "collection.json").read_text())
    manifest["tables"]["availability"]["files"][0]["path"] = path
    assert "is not a file of the table availability" in failure(change_manifest(made, manifest))


def test_row_count_of_a_table_must_match_its_files(made: Path) -> None:
    manifest = json.loads((made / "collection.json").read_text())
    manifest["tables"]["availability"]["files"] = []
    assert "but its files have a different number of rows" in failure(change_manifest(made, manifest))


@given(cut=st.integers(0, 400))
def test_cut_manifest_is_reported_as_damaged(cut: int, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("collection")
    files = {
        name: (CollectedFile(f"{name}/0.parquet", 1, 2),)
        for name in ("places", "directories", "cookies", "availability", "entry_logs")
    }
    Collection(str(path)).write_manifest(CollectionManifest("c1", "0.1", 1, 2, ("x",), files))
    text = (path / "collection.json").read_text()
    (path / "collection.json").write_text(text[: len(text) - 2 - cut])
    with pytest.raises(UnreadError, match=r"collection\.json is damaged"):
        Collection(str(path)).manifest()


@given(
    st.builds(
        CollectionManifest,
        st.text(min_size=1),
        st.text(),
        st.integers(0, 2**63),
        st.integers(0, 2**63),
        st.lists(st.text()).map(tuple),
        st.fixed_dictionaries(
            {
                name: st.lists(
                    st.builds(
                        CollectedFile,
                        st.integers(0, 99).map(f"{name}/{{}}.parquet".format),
                        st.integers(0, 2**40),
                        st.integers(0, 2**40),
                    )
                ).map(tuple)
                for name in ("places", "directories", "cookies", "availability", "entry_logs")
            }
        ),
    )
)
def test_written_manifest_is_read_back(tmp_path_factory: Any, manifest: CollectionManifest) -> None:
    collection = Collection(str(tmp_path_factory.mktemp("collection")))
    collection.write_manifest(manifest)
    assert collection.manifest() == manifest


def test_rows_of_an_invalid_parquet_file_are_unread(tmp_path: Path) -> None:
    (tmp_path / "places").mkdir()
    (tmp_path / "places" / "0.parquet").write_bytes(b"PAR1")
    with pytest.raises(UnreadError, match=r"places/0\.parquet cannot be read"):
        list(Collection(str(tmp_path)).read_rows("places", None))
