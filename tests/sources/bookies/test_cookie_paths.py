from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.bookies.paths import count_shared_parts, match_paths, path_parts

names = st.sampled_from(["data", "disk1", "disk2", "ledgers", "ledgers0"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda each: "/" + "/".join(each))
insides = st.dictionaries(st.integers(0, 5), st.lists(names, max_size=3).map(lambda each: ("bk", *each)))


@given(st.lists(paths, unique=True, max_size=5), insides)
def test_every_path_is_matched_with_one_directory_of_its_own_or_has_a_reason(
    asked: list[str], directories: dict[int, tuple[str, ...]]
) -> None:
    matched = match_paths(asked, directories)
    assert sorted([*matched.directory_by_path, *matched.reason_by_path]) == sorted(asked)
    assert len(set(matched.directory_by_path.values())) == len(matched.directory_by_path)
    for path, key in matched.directory_by_path.items():
        mine = count_shared_parts(path_parts(path), directories[key])
        others = [
            count_shared_parts(path_parts(path), inside)
            for other, inside in directories.items()
            if other != key
        ]
        rivals = [
            count_shared_parts(path_parts(other), directories[key])
            for other in matched.directory_by_path
            if other != path
        ]
        assert mine > max([0, *others, *rivals])


def test_the_longer_match_keeps_the_directory_and_the_other_path_has_none() -> None:
    matched = match_paths(["/mnt/disk1/ledgers", "/mnt/disk2/ledgers"], {1: ("bk", "disk1", "ledgers")})
    assert matched.directory_by_path == {"/mnt/disk1/ledgers": 1}
    assert matched.reason_by_path == {
        "/mnt/disk2/ledgers": "bk/disk1/ledgers could also be /mnt/disk1/ledgers"
    }


def test_a_path_without_any_name_in_common_is_not_matched() -> None:
    assert match_paths(["/mnt/a"], {1: ("bk", "b")}).reason_by_path == {
        "/mnt/a": "no such directory was found"
    }
    assert match_paths(["/"], {1: ("bk", "b")}).reason_by_path == {"/": "no such directory was found"}
