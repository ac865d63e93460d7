"""A manifest, and every way in which a collection can be less than it says."""

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


def trouble(path: Path) -> str:
    collection = Collection(str(path))
    with pytest.raises(UnreadError) as error:
        collection.verify(collection.manifest())
    assert error.value.path == str(path)
    return error.value.reason


def changed(path: Path, change: dict[str, Any]) -> Path:
    manifest = json.loads((path / "collection.json").read_text())
    (path / "collection.json").write_text(json.dumps(manifest | change))
    return path


def test_a_whole_collection_is_whole(made: Path) -> None:
    collection = Collection(str(made))
    collection.verify(collection.manifest())


def test_a_file_that_is_missing_is_noticed(made: Path) -> None:
    (made / "availability/part-00000.parquet").unlink()
    assert trouble(made) == "availability/part-00000.parquet is missing"


def test_a_file_that_was_cut_is_noticed(made: Path) -> None:
    file = made / "availability/part-00000.parquet"
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    assert (
        trouble(made)
        == f"availability/part-00000.parquet has {len(data) - 1} bytes; collection.json lists {len(data)}"
    )


def test_a_file_with_other_rows_is_noticed(made: Path) -> None:
    file = made / "availability/part-00000.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    manifest = json.loads((made / "collection.json").read_text())
    manifest["tables"]["availability"]["files"][0]["bytes"] = file.stat().st_size
    changed(made, manifest)
    rows = table.num_rows
    assert (
        trouble(made) == f"availability/part-00000.parquet has {rows - 1} rows; collection.json lists {rows}"
    )


def test_a_footer_that_cannot_be_read_is_noticed(made: Path) -> None:
    file = made / "entry_logs/part-00000.parquet"
    file.write_bytes(bytes(file.stat().st_size))
    assert trouble(made).startswith("entry_logs/part-00000.parquet cannot be read: ")


def test_an_unfinished_collection_is_noticed(made: Path) -> None:
    (made / "collection.json").unlink()
    assert trouble(made) == "was not finished: it has no collection.json"


def test_files_that_the_manifest_does_not_list_do_not_count(made: Path) -> None:
    (made / "availability/part-00001.parquet").write_bytes(b"left behind")
    collection = Collection(str(made))
    collection.verify(collection.manifest())


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_a_manifest_that_says_what_cannot_be_is_damaged(
    made: Path, change: dict[str, Any], said: str
) -> None:
    assert said in trouble(changed(made, change))


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
def test_a_manifest_names_no_file_outside_its_table(made: Path, path: str) -> None:
    manifest = json.loads((made / "collection.json").read_text())
    manifest["tables"]["availability"]["files"][0]["path"] = path
    assert "is not a file of the table availability" in trouble(changed(made, manifest))


def test_a_table_counts_as_many_rows_as_its_files(made: Path) -> None:
    manifest = json.loads((made / "collection.json").read_text())
    manifest["tables"]["availability"]["files"] = []
    assert "but its files have a different number of rows" in trouble(changed(made, manifest))


@given(cut=st.integers(0, 400))
def test_a_manifest_that_was_cut_is_damaged_and_never_shorter(cut: int, tmp_path_factory: Any) -> None:
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
def test_every_manifest_that_is_written_is_read_back(
    tmp_path_factory: Any, manifest: CollectionManifest
) -> None:
    collection = Collection(str(tmp_path_factory.mktemp("collection")))
    collection.write_manifest(manifest)
    assert collection.manifest() == manifest


def test_rows_of_a_file_that_is_no_parquet_are_unread(tmp_path: Path) -> None:
    (tmp_path / "places").mkdir()
    (tmp_path / "places" / "0.parquet").write_bytes(b"PAR1")
    with pytest.raises(UnreadError, match=r"places/0\.parquet cannot be read"):
        list(Collection(str(tmp_path)).read_rows("places", None))
