from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.bookies.paths import count_shared_parts, match_paths, path_parts

names = st.sampled_from(["data", "disk1", "disk2", "ledgers", "ledgers0"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
cookie_paths = st.dictionaries(st.integers(0, 5), st.lists(names, max_size=3).map(lambda each: ("bk", *each)))


@given(st.lists(paths, unique=True, max_size=5), cookie_paths)
def test_every_path_has_a_directory_of_its_own_or_a_reason(
    local_paths: list[str], directories: dict[int, tuple[str, ...]]
) -> None:
    matched = match_paths(local_paths, directories)
    assert sorted([*matched.directory_by_path, *matched.reason_by_path]) == sorted(local_paths)
    assert len(set(matched.directory_by_path.values())) == len(matched.directory_by_path)
    for path, key in matched.directory_by_path.items():
        shared_count = count_shared_parts(path_parts(path), directories[key])
        other_counts = [
            count_shared_parts(path_parts(path), inside)
            for candidate, inside in directories.items()
            if candidate != key
        ]
        rivals = [
            count_shared_parts(path_parts(candidate), directories[key])
            for candidate in matched.directory_by_path
            if candidate != path
        ]
        assert shared_count > max([0, *other_counts, *rivals])


def test_longer_match_wins_the_directory_and_the_shorter_match_has_none() -> None:
    matched = match_paths(["/mnt/disk1/ledgers", "/mnt/disk2/ledgers"], {1: ("bk", "disk1", "ledgers")})
    assert matched.directory_by_path == {"/mnt/disk1/ledgers": 1}
    assert matched.reason_by_path == {
        "/mnt/disk2/ledgers": "bk/disk1/ledgers could also be /mnt/disk1/ledgers"
    }


def test_path_without_a_common_name_is_not_matched() -> None:
    assert match_paths(["/mnt/a"], {1: ("bk", "b")}).reason_by_path == {
        "/mnt/a": "no such directory was found"
    }
    assert match_paths(["/"], {1: ("bk", "b")}).reason_by_path == {"/": "no such directory was found"}
