"""The reader can only read: that is a property of its text, not a habit."""

import ast
from pathlib import Path

import auditor
from auditor.sources.metadata.zookeeper.client import ZooKeeperReader
from auditor.sources.metadata.zookeeper.session import Session
from tests.syntax import syntax_nodes

HOUSE = Path(auditor.__file__).parent
ZOOKEEPER = HOUSE / "sources" / "metadata" / "zookeeper"
KAZOO_CALLS = {
    "get_async",  # reads
    "get_children_async",
    "sync_async",
    "_call",  # multiRead, whose two operations are reads, and addWatch, which needs no more than READ
    "_connection",  # where what a watch hears comes in
    "handler",
    "last_zxid",
    "add_listener",
    "client_state",
    "start",
    "stop",
    "close",
}


def used(module: Path) -> set[str]:
    """Every attribute of a kazoo client that a module touches."""
    tree = ast.parse(module.read_text("utf-8"))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("client", "self._client")
    }


def imported(module: Path) -> set[str]:
    """The modules of kazoo that a module imports from."""
    return {
        name
        for node in syntax_nodes(module)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if name.split(".")[0] == "kazoo"
    }


def test_the_reader_offers_nothing_but_reads() -> None:
    public = {name for name in vars(ZooKeeperReader) if not name.startswith("_")}
    assert public == {"data", "children", "last_zxid", "require_zxid", "sync_with_leader", "close"}
    public = {name for name in vars(Session) if not name.startswith("_")}
    assert public == {
        *("sync", "multi_read", "read", "answers", "answer", "last_zxid", "close"),
        *("ask", "watch"),  # a multiRead, and what moves from now on: neither is a transaction
    }


def test_of_the_client_library_only_reads_are_used() -> None:
    assert used(ZOOKEEPER / "session.py") == KAZOO_CALLS
    assert used(ZOOKEEPER / "client.py") == set()


def test_no_other_module_touches_the_client_library() -> None:
    found = {str(module.relative_to(HOUSE)): imported(module) for module in HOUSE.rglob("*.py")}
    assert {module: names for module, names in found.items() if names} == {
        "sources/metadata/zookeeper/session.py": found["sources/metadata/zookeeper/session.py"],
        "sources/metadata/zookeeper/client.py": {"kazoo.exceptions"},
        "sources/metadata/zookeeper/tree.py": {"kazoo.exceptions"},
        # The server that comes with the program: it is filled before anything is audited.
        "embedded/zookeeper.py": {"kazoo.client"},
    }
