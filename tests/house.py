"""Figures of the code base: its size, the size of its parts, and the imports between modules.

    python -m tests.house          the working tree
    python -m tests.house REV      a revision, and the working tree

A revision is read through ``git archive``; nothing is checked out.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from statistics import median

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = "auditor", ("tests", "proofs")
GENERATED = "auditor/codecs/protobuf/pb"
FRAGMENT_LINES = 60
"""A module below this many lines has two importers, or is a row of a registry."""
MAX_FUNCTION_LINES = 60
REGISTRIES = {
    f"{PACKAGE}.{name}"
    for name in (
        "checks",
        "cli",
        "cli.decode",
        "reports.forms",
        "sources.metadata.stores",
        "sources.owners.applications",
    )
}
"""Modules whose rows are modules: imported or named there, or in this package and called as a word there."""
PAIRED = ("sources", "sources.bookies", "sources.metadata")
"""Packages whose parts may not import each other both ways."""

Texts = Mapping[str, str]
"""The text of each Python file, by its path below the top of the repository."""


def read_tree() -> dict[str, str]:
    """Return the texts of the files in the working tree."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for folder in (PACKAGE, *TESTS)
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def read_git(revision: str) -> dict[str, str]:
    """Return the texts of the files at a git revision."""
    # git archive refuses a folder that the revision does not have.
    listing = ["git", "ls-tree", "-d", "--name-only", revision, PACKAGE, *TESTS]
    folders = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    archive = subprocess.run(
        ["git", "archive", "--format=tar", revision, *folders], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        return {
            member.name: files.extractfile(member).read().decode()  # type: ignore[union-attr]  # a file
            for member in files
            if member.isfile() and member.name.endswith(".py")
        }


@dataclass(frozen=True)
class Module:
    """One file of the package: its path, its dotted name and its text."""

    path: str
    text: str

    @cached_property
    def name(self) -> str:
        """Return the name by which other modules import it."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def tree(self) -> ast.Module:
        """Return the syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        """Return the number of lines."""
        return len(self.text.splitlines())

    @cached_property
    def header(self) -> int:
        """Return the number of lines before the first statement that is neither docstring nor import."""
        for node in self.tree.body[ast.get_docstring(self.tree) is not None :]:
            typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if not typing_only and not isinstance(node, (ast.Import, ast.ImportFrom)):
                decorators: list[ast.expr] = getattr(node, "decorator_list", [])
                return min(node.lineno, *(decorator.lineno for decorator in decorators), self.lines) - 1
        return self.lines

    @cached_property
    def functions(self) -> dict[str, int]:
        """Return the number of lines of each function, without its docstring and signature."""
        return {
            node.name: sum(
                (part.end_lineno or 0) - part.lineno + 1
                for part in node.body[ast.get_docstring(node) is not None :]
            )
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    @cached_property
    def imported(self) -> list[str]:
        """Return the dotted name of each import, including those in functions and for type checkers."""
        return [
            name
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
            for name in [f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name]
        ]

    @cached_property
    def words(self) -> set[str]:
        """Return the constant texts, each up to its first colon."""
        return {
            node.value.partition(":")[0]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }


class Repo:
    """The package and its tests, as given by their texts."""

    def __init__(self, texts: Texts) -> None:
        ours = {path: text for path, text in texts.items() if f"{GENERATED}/" not in path}
        self.modules = {
            module.name: module
            for path, text in ours.items()
            if path.startswith(f"{PACKAGE}/")
            for module in [Module(path, text)]
        }
        self.tests = {path: text for path, text in ours.items() if path.partition("/")[0] in TESTS}

    @cached_property
    def imports(self) -> dict[str, Counter[str]]:
        """Return the modules that each module imports, and the number of places of each import."""
        counts: dict[str, Counter[str]] = {}
        for name, module in self.modules.items():
            targets = (path if path in self.modules else path.rpartition(".")[0] for path in module.imported)
            counts[name] = Counter(path for path in targets if path in self.modules and path != name)
        return counts

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Return, for each module, the modules that import it or name it in a text."""
        by_module: dict[str, set[str]] = defaultdict(set)
        for name, targets in self.imports.items():
            for target in (*targets, *(self.modules[name].words & self.modules.keys() - {name})):
                by_module[target].add(name)
        return by_module

    def is_row(self, module: Module) -> bool:
        """Return whether a registry has a row for the module, or the module is a program."""
        package, _, stem = module.name.rpartition(".")
        if package in REGISTRIES and {stem, stem.replace("_", "-")} & self.modules[package].words:
            return True
        return "__main__" in module.words or bool(self.importers[module.name] & REGISTRIES)

    def fragments(self) -> list[str]:
        """Return paths of modules that are too small to stand alone."""
        return [
            module.path
            for name, module in self.modules.items()
            if module.lines < FRAGMENT_LINES
            and not module.path.endswith("__init__.py")
            and len(self.importers[name]) < 2
            and not self.is_row(module)
        ]

    def pairs(self, package: str) -> dict[tuple[str, str], int]:
        """Return parts of a package that import each other, and the number of imports in both directions."""
        below = f"{PACKAGE}.{package}."
        places: Counter[tuple[str, str]] = Counter()
        for name, targets in self.imports.items():
            for target, count in targets.items():
                if name.startswith(below) and target.startswith(below):
                    ends = [module.removeprefix(below).split(".")[0] for module in (name, target)]
                    if ends[0] != ends[1]:
                        places[ends[0], ends[1]] += count
        return {
            (first, second): count + places[second, first]
            for (first, second), count in places.items()
            if first < second and (second, first) in places
        }

    def header_share(self) -> float:
        """Return the share of all lines that come before first statements."""
        return sum(module.header for module in self.modules.values()) / self.lines()

    def lines(self) -> int:
        """Return the number of lines of the package."""
        return sum(module.lines for module in self.modules.values())

    def figures(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the value of each figure."""
        sizes = [value.lines for value in self.modules.values()]
        lone = [name for name in self.modules if len(self.importers[name]) == 1]
        lengths = [length for value in self.modules.values() for length in value.functions.values()]
        yield "modules", f"{len(sizes):,}"
        yield "lines", f"{sum(sizes):,}"
        yield "median file", f"{median(sizes):g}"
        yield "largest file", f"{max(sizes)}"
        yield "lines before first statements", f"{self.header_share():.1%}"
        yield f"modules below {FRAGMENT_LINES} lines, one importer, no row", f"{len(self.fragments())}"
        yield "modules with exactly one importer", f"{len(lone)}"
        yield (
            f"functions over {MAX_FUNCTION_LINES} lines",
            f"{sum(value > MAX_FUNCTION_LINES for value in lengths)}",
        )
        yield "longest function", f"{max(lengths, default=0)}"
        for package in PAIRED:
            yield f"imports of pairs in {package}", f"{sum(self.pairs(package).values())}"
        yield "test files", f"{sum(PurePosixPath(path).name.startswith('test_') for path in self.tests):,}"
        yield "all files of tests", f"{len(self.tests):,}"
        yield "lines of tests", f"{sum(len(text.splitlines()) for text in self.tests.values()):,}"
        yield "test functions", f"{sum(map(_tests, self.tests.values())):,}"

    def packages(self) -> Iterator[tuple[str, str]]:
        """Yield each package with its modules, lines, and share of lines before first statements."""
        by_package: dict[str, list[Module]] = defaultdict(list)
        for name, module in self.modules.items():
            by_package[name.split(".")[1] if "." in name else name].append(module)
        for package, inside in sorted(by_package.items()):
            lines = sum(part.lines for part in inside)
            yield package, f"{len(inside)} / {lines:,} / {sum(part.header for part in inside) / lines:.0%}"


def _tests(text: str) -> int:
    return sum(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
        for node in ast.walk(ast.parse(text))
    )


def table(columns: Mapping[str, Iterable[tuple[str, str]]]) -> list[str]:
    """Return the lines of a table with a row per figure and a column per version of the code."""
    values = {title: dict(rows) for title, rows in columns.items()}
    names = list(dict.fromkeys(name for rows in values.values() for name in rows))
    wide = max(map(len, names))
    widths = {
        title: max(len(title), *(len(text) for text in rows.values())) for title, rows in values.items()
    }
    lines = ["  ".join([" " * wide, *(title.rjust(widths[title]) for title in values)])]
    return lines + [
        "  ".join(
            [name.ljust(wide), *(rows.get(name, "-").rjust(widths[title]) for title, rows in values.items())]
        )
        for name in names
    ]


def main(revisions: list[str]) -> None:
    """Print the figures of revisions, and of the working tree."""
    repos = {revision: Repo(read_git(revision)) for revision in revisions} | {"here": Repo(read_tree())}
    print(*table({title: house.figures() for title, house in repos.items()}), sep="\n")
    print("\nmodules / lines / share before first statements")
    print(*table({title: house.packages() for title, house in repos.items()}), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
