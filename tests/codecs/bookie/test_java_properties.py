"""Properties files that bookies use, and invalid properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.java_properties import MAX_BYTES, decode
from auditor.errors import DecodeError

# Lines of conf/bk_server.conf as BookKeeper 4.17 ships it, comments cut.
SHIPPED = b"""\
#  limitations under the License.
## Bookie settings

# The port that the bookie server listens on.
bookiePort=3181
# useHostNameAsBookieID=false
journalDirectories=/tmp/bk-txn
ledgerDirectories=/tmp/bk-data

# How long the interval to trigger next garbage collection, in milliseconds
# gcWaitTime=1000
extraServerComponents=
metadataServiceUri=zk+hierarchical://localhost:2181/ledgers
"""

text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


def escaped(word: str) -> str:
    return "".join(f"\\{char}" if char in "\\=: #!" else char for char in word)


def test_shipped_file_gives_its_settings() -> None:
    assert decode(SHIPPED) == {
        "bookiePort": "3181",
        "journalDirectories": "/tmp/bk-txn",
        "ledgerDirectories": "/tmp/bk-data",
        "extraServerComponents": "",
        "metadataServiceUri": "zk+hierarchical://localhost:2181/ledgers",
    }


@pytest.mark.parametrize(
    ("data", "properties"),
    [
        (b"a : b", {"a": "b"}),
        (b"a b c", {"a": "b c"}),
        (b"a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        (b"a=1\na=2", {"a": "1"}),
        (b"a=b,\\\n   c", {"a": "b,c"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"a=b\\", {"a": "b"}),
        (b"a\\=b=c", {"a=b": "c"}),
        (b"a=\\u0041\\t\\q", {"a": "A\tq"}),
        (b"! nothing\n   # nor here", {}),
        (b"a=b\\\n# not a comment", {"a": "b# not a comment"}),
        (b"", {}),
    ],
)
def test_lines_are_read_as_java_reads_them(data: bytes, properties: dict[str, str]) -> None:
    assert decode(data) == properties


@given(
    st.dictionaries(
        text.filter(lambda key: key and key == key.strip() and not any(c.isspace() for c in key)), text
    )
)
def test_escaped_pairs_are_read_back(pairs: dict[str, str]) -> None:
    values = {key: value.strip() for key, value in pairs.items() if "\x85" not in key + value}
    lines = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in values.items())
    assert decode(lines.encode()) == values


@pytest.mark.parametrize(
    ("data", "offset"), [(b"a=b\xff", 3), (b"#" * (MAX_BYTES + 1), MAX_BYTES)], ids=["no-text", "too-long"]
)
def test_invalid_configuration_is_refused_with_its_offset(data: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as error:
        decode(data)
    assert error.value.offset == offset
