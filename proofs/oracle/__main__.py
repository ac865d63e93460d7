"""Check every check of the catalogue: ``python -m proofs.oracle``.

The program plants faults in clusters of real bookies and audits them. Every check has at least one fault,
which a server, a client or an operator makes. For each check the table shows the planted faults, those that
the audit found, and the other findings. The exit code is 1 if a finding is false or the audit overlooked a
fault.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from auditor.spark.session import build_session
from proofs.oracle.plants import HEAD, Score, empty_scores, score
from proofs.oracle.scenes import SCENES


def main() -> int:
    """Run the scenes and print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proofs.oracle", description=__doc__)
    parser.add_argument("--scene", action="append", choices=sorted(SCENES))
    parser.add_argument("--keep", type=Path, help="a new directory for what the clusters leave behind")
    parser.add_argument("--rows", type=Path, help="a file for the rows, as tests/truth/proofs.toml has them")
    options = parser.parse_args()
    spark = build_session("local[2]", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    scores, wrong = empty_scores(), []
    with tempfile.TemporaryDirectory(prefix="oracle-") as scratch:
        for name in options.scene or SCENES:
            print(name, file=sys.stderr, flush=True)
            for plants, findings in SCENES[name](spark, (options.keep or Path(scratch)) / name):
                wrong += [f"{name}: {sentence}" for sentence in score(plants, findings, scores)]
    spark.stop()
    rows = [HEAD, *(result.row(check) for check, result in scores.items() if result != Score())]
    if options.rows:
        lines = [f"    {json.dumps(row, ensure_ascii=False)},\n" for row in rows]
        options.rows.write_text(f"rows = [\n{''.join(lines)}]\n")
    print("\n".join(" | ".join(row) for row in rows))
    print("\n".join(wrong) or "nothing false, nothing overlooked")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
