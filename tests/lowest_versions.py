"""The lowest versions that pyproject.toml allows, one exact version a line, as constraints for pip.

python -m tests.lowest_versions > lowest.txt
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest_versions(lines: list[str]) -> list[str]:
    """Return the lower bounds of the requirements that have one.

    >>> lowest_versions(["click>=8.5,<9", "hypothesis"])
    ['click==8.5']
    """
    ends = {
        requirement.name: bound.version
        for requirement in map(Requirement, lines)
        for bound in requirement.specifier
        if bound.operator == ">="
    }
    return [f"{name}=={version}" for name, version in ends.items()]


if __name__ == "__main__":
    print("\n".join(lowest_versions(tomllib.loads(PROJECT.read_text("utf-8"))["project"]["dependencies"])))
