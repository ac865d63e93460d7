"""The URI forms of design section 6, and the URIs that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.uri import ETCD_WITH_PATH_KEYS, OXIA, parse_metadata_uri


@pytest.mark.parametrize(
    ("scheme", "layout"),
    [
        ("zk", None),
        ("zk+null", None),
        ("zk+flat", LayoutKind.FLAT),
        ("zk+hierarchical", LayoutKind.HIERARCHICAL),
        ("zk+longhierarchical", LayoutKind.LONG_HIERARCHICAL),
        ("zk+longlonghierarchical", LayoutKind.LONG_HIERARCHICAL),
    ],
)
@pytest.mark.parametrize("separator", [";", ","])
def test_zookeeper_uri_of_bookkeeper_is_parsed(
    scheme: str, layout: LayoutKind | None, separator: str
) -> None:
    parsed = parse_metadata_uri(f"{scheme}://h1:2181{separator}h2:2182/bk/ledgers")
    assert (parsed.scheme, parsed.hosts) == ("zk", ("h1:2181", "h2:2182"))
    assert (parsed.root, parsed.layout, parsed.path) == ("/bk/ledgers", layout, "")


def test_host_without_a_port_gets_the_zookeeper_port() -> None:
    assert parse_metadata_uri("zk://h1,[::1]:99/ledgers/").hosts == ("h1:2181", "[::1]:99")


@pytest.mark.parametrize("scheme", ["zk-snapshot", "dump"])
def test_saved_metadata_uri_is_parsed(scheme: str) -> None:
    parsed = parse_metadata_uri(f"{scheme}:///saved/version-2?root=/bk")
    assert (parsed.scheme, parsed.path, parsed.root, parsed.hosts) == (scheme, "/saved/version-2", "/bk", ())
    assert parse_metadata_uri(f"{scheme}:///saved%20here").path == "/saved here"
    assert parse_metadata_uri(f"{scheme}:///saved").root == "/ledgers"


@pytest.mark.parametrize("separator", [";", ","])
def test_etcd_uri_of_bookkeeper_is_parsed(separator: str) -> None:
    parsed = parse_metadata_uri(f"etcd://h1:2380{separator}[::1]/bk/cluster%201")
    assert (parsed.scheme, parsed.hosts) == ("etcd", ("h1:2380", "[::1]:2379"))
    assert (parsed.root, parsed.layout, parsed.path) == ("/bk/cluster 1", LayoutKind.ETCD, "")


@pytest.mark.parametrize(
    ("uri", "scheme", "hosts", "root"),
    [
        (
            "metadata-store:etcd://h1,h2:2380/east/ledgers",
            "metadata-store:etcd",
            ("h1:2379", "h2:2380"),
            "/east/ledgers",
        ),
        (
            "metadata-store:etcd:http://h1:2379,http://h2",
            "metadata-store:etcd",
            ("h1:2379", "h2:2379"),
            "/ledgers",
        ),
        ("metadata-store:etcd:https://h1:2379", ETCD_WITH_PATH_KEYS, ("h1:2379",), "/ledgers"),
        ("metadata-store:zk:h1:2181,h2:2181", "zk", ("h1:2181", "h2:2181"), "/ledgers"),
        ("metadata-store:zk:h1:2181/east", "zk", ("h1:2181",), "/east/ledgers"),
        ("metadata-store:zk://h1/east/ledgers", "zk", ("h1:2181",), "/east/ledgers"),
        (
            "metadata-store:etcd-snapshot:///s/a.db?root=/east/ledgers",
            "metadata-store:etcd-snapshot",
            (),
            "/east/ledgers",
        ),
    ],
)
def test_pulsar_metadata_store_uri_is_parsed(
    uri: str, scheme: str, hosts: tuple[str, ...], root: str
) -> None:
    parsed = parse_metadata_uri(uri)
    assert (parsed.scheme, parsed.hosts, parsed.root, parsed.layout) == (scheme, hosts, root, None)


@pytest.mark.parametrize(
    ("uri", "hosts", "namespace", "root"),
    [
        ("metadata-store:oxia://h1:6648/bookkeeper", "h1:6648", "bookkeeper", "/ledgers"),
        ("metadata-store:oxia://h1", "h1:6648", "default", "/ledgers"),
        ("metadata-store:oxia://h1:7000/?batchingMaxDelayMillis=5", "h1:7000", "default", "/ledgers"),
        ("metadata-store:oxia:h1/broker", "h1:6648", "broker", "/ledgers"),
        ("metadata-store:oxia://h1/broker?root=/managed-ledgers", "h1:6648", "broker", "/managed-ledgers"),
    ],
)
def test_path_of_an_oxia_uri_is_its_namespace(uri: str, hosts: str, namespace: str, root: str) -> None:
    parsed = parse_metadata_uri(uri)
    assert (parsed.scheme, parsed.hosts, parsed.namespace, parsed.root) == (OXIA, (hosts,), namespace, root)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("metadata-store:oxia://h1:6648/a/b", "the path must be one name, the namespace of Oxia"),
        ("metadata-store:oxia://me:secret@h1/bookkeeper", "no user and no password"),
        ("metadata-store:oxia:///bookkeeper", "not of the form HOST:PORT"),
        ("metadata-store:oxia://h1/bookkeeper?root=ledgers", "the root must be an absolute znode path"),
        ("metadata-store:rocksdb:///data", "unknown metadata store 'rocksdb'"),
        ("metadata-store:etcd://me:secret@h1/ledgers", "no user and no password"),
        ("metadata-store:etcd://h1/ledgers?root=/x", "takes no query"),
    ],
)
def test_invalid_pulsar_store_uri_is_a_usage_error(uri: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_metadata_uri(uri)


def test_trailing_slash_of_a_scope_is_kept() -> None:
    assert parse_metadata_uri("etcd://h/bk/").root == "/bk/"


def test_etcd_snapshot_uri_is_parsed() -> None:
    parsed = parse_metadata_uri("etcd-snapshot:///saved/etcd.db?scope=/bk/cluster1")
    assert (parsed.scheme, parsed.path, parsed.root) == ("etcd-snapshot", "/saved/etcd.db", "/bk/cluster1")
    assert parsed.layout is LayoutKind.ETCD
    assert parse_metadata_uri("etcd-snapshot:///etcd.db").root == "/ledgers"


@pytest.mark.parametrize(
    ("uri", "word"),
    [
        ("/ledgers", "known forms"),
        ("ftp://h/ledgers", "unknown scheme 'ftp'"),
        ("zk+ms://h:2181/ledgers", "+ms"),
        ("zk+legacyhierarchical://h:2181/ledgers", "unknown scheme"),
        ("etcd+hierarchical://h:2379/scope", "takes no suffix; known forms"),
        ("etcd-snapshot+null:///file.db", "takes no suffix"),
        ("etcd://h:2379", "scope"),
        ("etcd://h:2379//", "scope"),
        ("etcd:///scope", "not of the form HOST:PORT"),
        ("etcd://h1;h2:0/scope", "not of the form HOST:PORT"),
        ("etcd://h:2379/scope?scope=/x", "no query"),
        ("etcd-snapshot:///file.db?scope=x", "scope"),
        ("etcd-snapshot:///file.db?root=/x", "pass only scope="),
        ("etcd-snapshot://file.db", "absolute path"),
        ("zk:///ledgers", "not of the form HOST:PORT"),
        ("zk://h:2181", "root"),
        ("zk://h:2181/", "root"),
        ("zk://h:2181/a//b", "root"),
        ("zk://h:0/ledgers", "not of the form HOST:PORT"),
        ("zk://h:99999/ledgers", "not of the form HOST:PORT"),
        ("zk://user@h:1/ledgers", "credentials file"),
        ("zk://h:1;/ledgers", "not of the form HOST:PORT"),
        ("zk://h:1/ledgers?root=/x", "no query"),
        ("dump://relative/path", "absolute path"),
        ("dump:///", "absolute path"),
        ("dump:///x?rooot=/ledgers", "'rooot'"),
        ("dump:///x?root=/bk&scope=/bk", "root and scope mean the same"),
        ("zk-snapshot:///x?scope=/ledgers", "'scope'"),
        ("zk-snapshot:///x?root=ledgers", "root"),
        ("zk-snapshot:///x?root=/a/../b", "root"),
    ],
)
def test_invalid_uri_is_a_usage_error(uri: str, word: str) -> None:
    with pytest.raises(UsageError, match=word.replace("+", r"\+")):
        parse_metadata_uri(uri)


@given(
    st.one_of(
        st.text(),
        st.builds("zk://{}".format, st.text()),
        st.builds("dump://{}".format, st.text()),
        st.builds("etcd://h/{}".format, st.text()),
    )
)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parsed = parse_metadata_uri(text)
    except UsageError:
        return
    assert parsed.root.startswith("/")


@pytest.mark.parametrize(
    "uri", ["zk://me:secret@h1:2181/ledgers", "etcd://me:secret@h1:2379/l", "zk+ms://a:secret@h/l"]
)
def test_credentials_in_a_uri_are_never_repeated(uri: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_metadata_uri(uri)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "uri", ["zk:me:secret@h/l", "me:secret@zk://h/l", "zk://me:se/cret@h/l", "zk://me:secret@h/l"]
)
def test_password_is_not_repeated_for_a_mistyped_uri(uri: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_metadata_uri(uri)
    assert "cret" not in str(error.value)


def test_uri_that_is_not_text_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        parse_metadata_uri(b"dump:///a\xff%20b".decode("utf-8", "surrogateescape"))


def test_dump_uri_accepts_scope_for_root() -> None:
    assert parse_metadata_uri("dump:///x?scope=/bk/one").root == "/bk/one"
