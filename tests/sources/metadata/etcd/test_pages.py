"""Pages of etcd keys: none is too large for a message, and none omits a key."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.errors import StoreError
from auditor.sources.metadata.etcd.client import MESSAGE_LIMIT, EtcdAnswer, EtcdClient, EtcdRangeRequest, Keys
from auditor.sources.metadata.etcd.pages import MAX_PAGE_KEYS, TARGET_PAGE_BYTES, ChangedKeys, EtcdPages, Page
from auditor.sources.metadata.store import StoreOptions
from tests.servers.etcd import Etcd, running

START, END = b"/bk/ledgers/", b"/bk/ledgers0"
OPTIONS = StoreOptions(rate_limit=0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """Yield an etcd that accepts values larger than any message of our client."""
    folder = tmp_path_factory.mktemp("etcd")
    with running(folder, flags=("--max-request-bytes", str(8 << 20))) as member:
        yield member


@pytest.fixture
def client(server: Etcd) -> Iterator[EtcdClient]:
    server.ctl("del", "--prefix", "/")
    opened = EtcdClient([server.host], OPTIONS)
    yield opened
    opened.close()


def pages(client: EtcdClient, revision: int, options: StoreOptions = OPTIONS) -> list[Page]:
    return list(EtcdPages(client, options).read(START, END, revision))


def page_values(page_list: list[Page]) -> list[tuple[str, bytes]]:
    return [
        (name.decode(), value)
        for page in page_list
        for name, value in zip(page.keys.names, page.keys.values, strict=True)
    ]


@pytest.mark.parametrize("in_flight", [1, 4])
def test_pages_grow_up_to_half_a_message(server: Etcd, client: EtcdClient, in_flight: int) -> None:
    key_values = [(f"/bk/ledgers/{number:05d}", b"x" * 300) for number in range(12_000)]
    revision = server.load([*key_values, ("/bk/ledgers-other", b""), ("/bk/ledgers", b"")])
    page_list = pages(client, revision, StoreOptions(rate_limit=0, in_flight=in_flight))
    assert page_values(page_list) == key_values
    sizes = [len(page.keys.names) for page in page_list]
    assert sizes[:3] == [500, 1000, 2000]
    assert max(sizes) <= MAX_PAGE_KEYS
    assert all(not page.gaps for page in page_list)


def test_too_large_page_is_requested_again_in_halves(server: Etcd, client: EtcdClient) -> None:
    small = [(f"/bk/ledgers/{number:05d}", b"x") for number in range(3000)]
    large = [(f"/bk/ledgers/L{number:02d}", b"x" * 1_400_000) for number in range(7)]
    revision = server.load([*small, *large])
    page_list = pages(client, revision)
    assert page_values(page_list) == small + large
    assert client.operations["keys_read"] == 3007
    assert min(len(page.keys.names) for page in page_list) in (1, 2)


def test_value_larger_than_a_message_is_a_gap_at_its_key(server: Etcd, client: EtcdClient) -> None:
    key_values = [
        (f"/bk/ledgers/{number:02d}", b"x" * (5 << 20 if number == 3 else 10)) for number in range(6)
    ]
    revision = server.load(key_values)
    page_list = pages(client, revision)
    assert page_values(page_list) == key_values[:3] + key_values[4:]
    assert [gap for page in page_list for gap in page.gaps] == [
        ("/bk/ledgers/03", "its value does not fit in a message of 4194304 bytes")
    ]


def test_an_empty_range_is_one_empty_page(server: Etcd, client: EtcdClient) -> None:
    revision = server.load([("/bk/ledgers", b"")])
    assert pages(client, revision) == [Page(Keys([], [], [], [], [], []))]
    assert EtcdPages(client, OPTIONS).first_key(START, END, revision) is None


def test_keys_are_counted_and_the_first_is_found_without_values(server: Etcd, client: EtcdClient) -> None:
    revision = server.load([(f"/bk/ledgers/{number:03d}", b"x") for number in range(100)])
    reader = EtcdPages(client, StoreOptions(in_flight=3))
    ranges = [
        (b"/bk/ledgers/%03d" % number, b"/bk/ledgers/%03d" % (number + 10)) for number in range(0, 100, 10)
    ]
    assert reader.count_keys(ranges, revision) == [10] * 10
    assert reader.first_key(b"/bk/ledgers/0400", END, revision) == b"/bk/ledgers/041"
    assert client.operations["keys_read"] == 1


def test_low_rate_limit_makes_small_pages(server: Etcd, client: EtcdClient) -> None:
    revision = server.load([(f"/bk/ledgers/{number:03d}", b"x") for number in range(100)])
    page_list = pages(client, revision, StoreOptions(rate_limit=30))
    assert [len(page.keys.names) for page in page_list] == [30, 30, 30, 10]


class MissingKeyClient(EtcdClient):
    """A client whose page omits a key, which no etcd should do."""

    def receive_answer(self, pending: object) -> EtcdAnswer:
        keys = Keys([b"/bk/ledgers/0", b"/bk/ledgers/1"], [b"", b""], [1, 1], [1, 1], [0, 0], [1, 1])
        return EtcdAnswer(keys, 3, False, 100, 7)

    def send_request(self, range_request: EtcdRangeRequest) -> Any:
        return SimpleNamespace(range_request=range_request)


def test_fewer_keys_than_the_count_are_an_error() -> None:
    client = MissingKeyClient(["127.0.0.1:1"], OPTIONS)
    with pytest.raises(
        StoreError, match="received 2 keys from /bk/ledgers/ on, but etcd counts 3 at revision 7"
    ):
        pages(client, 7)


def test_target_page_size_is_half_the_grpc_message_limit() -> None:
    assert TARGET_PAGE_BYTES * 2 == MESSAGE_LIMIT == 4 << 20


def changed_since(reader: EtcdPages, end: bytes, revision: int, since: int) -> ChangedKeys | None:
    return reader.receive_changes(reader.ask_for_changes(START, end, revision, since))


def test_changed_keys_are_returned_with_the_number_of_all_keys(server: Etcd, client: EtcdClient) -> None:
    key_values = [(f"/bk/ledgers/{number:03d}", b"x") for number in range(100)]
    since = server.load(key_values) + 1
    revision = server.load([("/bk/ledgers/007", b"y"), ("/bk/ledgers/~", b"z"), ("/bk/other", b"")])
    server.load([("/bk/ledgers/008", b"later")])
    changed = changed_since(EtcdPages(client, OPTIONS), END, revision, since)
    assert changed is not None
    assert page_values(changed.pages) == [("/bk/ledgers/007", b"y"), ("/bk/ledgers/~", b"z")]
    assert changed.count == 101
    unchanged = changed_since(EtcdPages(client, OPTIONS), END, revision, revision + 1)
    assert unchanged is not None
    assert (page_values(unchanged.pages), unchanged.count) == ([], 101)


def test_too_many_changes_give_no_answer(server: Etcd, client: EtcdClient) -> None:
    revision = server.load([(f"/bk/ledgers/{number:03d}", b"x") for number in range(13)])
    reader = EtcdPages(client, StoreOptions(rate_limit=3))
    assert changed_since(reader, END, revision, 1) is None
    changed = changed_since(reader, b"/bk/ledgers/012", revision, 1)
    assert changed is not None
    assert len(page_values(changed.pages)) == 12


def test_names_are_read_without_values(server: Etcd, client: EtcdClient) -> None:
    key_values = [(f"/bk/ledgers/{number:05d}", b"x" * 100) for number in range(MAX_PAGE_KEYS + 100)]
    revision = server.load(key_values)
    key_pages = list(EtcdPages(client, OPTIONS).names(START, END, revision))
    assert [name.decode() for keys in key_pages for name in keys.names] == [path for path, _ in key_values]
    assert [len(keys.names) for keys in key_pages] == [MAX_PAGE_KEYS, 100]
    assert {value for keys in key_pages for value in keys.values} == {b""}
