"""The ZooKeeper reader can only read: its source code has no call that writes."""

import ast
from pathlib import Path

import auditor
from auditor.sources.metadata.zookeeper.client import ZooKeeperReader
from auditor.sources.metadata.zookeeper.session import Session
from tests.syntax import syntax_nodes

PACKAGE = Path(auditor.__file__).parent
ZOOKEEPER = PACKAGE / "sources" / "metadata" / "zookeeper"
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


def used_attributes(module: Path) -> set[str]:
    """Return every attribute of a kazoo client that a module uses."""
    tree = ast.parse(module.read_text("utf-8"))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("client", "self._client")
    }


def kazoo_imports(module: Path) -> set[str]:
    """Return the modules of kazoo from which a module imports."""
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


def test_reader_has_only_read_methods() -> None:
    public = {name for name in vars(ZooKeeperReader) if not name.startswith("_")}
    assert public == {"data", "children", "last_zxid", "require_zxid", "sync_with_leader", "close"}
    public = {name for name in vars(Session) if not name.startswith("_")}
    assert public == {
        *("sync", "multi_read", "read", "answers", "answer", "last_zxid", "close"),
        *("ask", "watch"),  # a multiRead, and what moves from now on: neither is a transaction
    }


def test_session_uses_only_the_listed_kazoo_methods() -> None:
    assert used_attributes(ZOOKEEPER / "session.py") == KAZOO_CALLS
    assert used_attributes(ZOOKEEPER / "client.py") == set()


def test_no_other_module_imports_kazoo() -> None:
    imports_by_module = {
        str(module.relative_to(PACKAGE)): kazoo_imports(module) for module in PACKAGE.rglob("*.py")
    }
    assert {module: names for module, names in imports_by_module.items() if names} == {
        "sources/metadata/zookeeper/session.py": imports_by_module["sources/metadata/zookeeper/session.py"],
        "sources/metadata/zookeeper/client.py": {"kazoo.exceptions"},
        "sources/metadata/zookeeper/tree.py": {"kazoo.exceptions"},
        # The server that comes with the program: it is filled before anything is audited.
        "embedded/zookeeper.py": {"kazoo.client"},
    }
