"""Fuzz one target with atheris in this process: ``python -m proofs.fuzz.guided TARGET CORPUS [-OPTION]``.

The options are libFuzzer's. The process ends at the first input on which the target raises an undeclared
error.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(name: str, corpus: str, *options: str) -> None:
    """Fuzz until the limits in the options are reached. The process ends inside this call."""
    atheris = import_module("atheris")  # not a dependency of the tests
    # This must be the first import of the package: atheris cannot follow modules imported before.
    with atheris.instrument_imports(include=["auditor"]):
        from proofs.fuzz.targets import TARGETS
    target = next(candidate for candidate in TARGETS if candidate.name == name)
    for number, data in enumerate(target.beginnings()):
        Path(corpus, f"golden-{number:03}").write_bytes(data)

    def run_input(data: bytes) -> None:
        target.execute(data)

    atheris.Setup([sys.argv[0], corpus, f"-max_len={target.most}", *options], run_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
