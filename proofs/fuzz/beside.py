"""Compare which bytes BookKeeper and this program accept: ``python -m proofs.fuzz.beside --runs N``.

The program passes mutated golden bytes and the kept inputs of fuzzing to BookKeeper 4.17.2's classes and
its own readers. It counts the inputs that only one side accepts, by kind and by the other side's message.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

from auditor.errors import RuleError
from auditor.spark.java import find_java
from proofs.fuzz.corpus import kept_inputs
from proofs.fuzz.target import mutate
from proofs.fuzz.targets import BY_NAME
from tests.servers.bookies.jars import classpath

SOURCE = Path(__file__).parent / "java" / "Accepts.java"
MAIN = "org.apache.bookkeeper.bookie.Accepts"
KINDS = (
    *("ledger-metadata", "cookie", "layout", "availability-java", "last-mark", "mark", "lock"),
    *("service-info", "ledger-data"),
)
MOST_BYTES = 4096

Difference = tuple[str, str, str]
"""A kind of bytes, the side that refuses (``here`` or ``there``), and its message with numbers replaced."""


def answers(inputs: list[tuple[str, bytes]]) -> list[str]:
    """Return the result of BookKeeper's class for each input: ``read``, or the name of an exception."""
    command = [str(find_java().executable), "-cp", classpath(java_files=[SOURCE]), MAIN]
    lines = "".join(f"{kind} {data.hex()}\n" for kind, data in inputs)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    texts = [line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert len(texts) == len(inputs), done.stderr[-2000:]
    return texts


def differences(runs: int, seed: str) -> dict[Difference, list[bytes]]:
    """Return the inputs that only one side reads, among ``runs`` mutated inputs of each kind."""
    inputs: list[tuple[str, bytes]] = []
    for kind in KINDS:
        golden = [*BY_NAME[kind].beginnings(), *kept_inputs().get(kind, ())]
        chance = random.Random(f"{seed} {kind}")
        inputs += [(kind, data) for data in golden if len(data) <= MOST_BYTES]
        inputs += [(kind, mutate(golden, chance, MOST_BYTES)) for _ in range(runs)]
    cases: dict[Difference, list[bytes]] = {}
    for (kind, data), java_answer in zip(inputs, answers(inputs), strict=True):
        refusal = BY_NAME[kind].execute(data)
        # A RuleError comes with the value: the reader accepts such bytes and reports a finding.
        refused = refusal is not None and not isinstance(refusal, RuleError)
        if refused and java_answer == "read":
            words = re.sub(r"'[^']*'|-?\d+|[0-9a-f]{6,}", "N", str(refusal).partition(" (at byte")[0])
            cases.setdefault((kind, "here", words), []).append(data)
        elif refusal is None and java_answer != "read":
            cases.setdefault((kind, "there", java_answer), []).append(data)
    return cases


def main() -> None:
    """Print each difference with its number of inputs and one example."""
    parser = argparse.ArgumentParser(prog="python -m proofs.fuzz.beside", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="inputs of each kind")
    parser.add_argument("--seed", default="0")
    chosen = parser.parse_args()
    cases = differences(chosen.runs, chosen.seed)
    for (kind, who, words), inputs in sorted(cases.items()):
        shortest = min(inputs, key=len)
        print(f"{kind:18} refused {who:5} {len(inputs):6}  {words}\n{'':20}{shortest[:60]!r}")
    print(dict(Counter({kind: sum(len(cases[key]) for key in cases if key[0] == kind) for kind in KINDS})))


if __name__ == "__main__":
    main()
