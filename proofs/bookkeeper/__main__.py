"""Make the golden bytes of one version of BookKeeper: ``python -m proofs.bookkeeper 4.18.0 --out DIR``.

The program starts four bookies of that version, with jars that it fetches from Maven Central once. The
version's client writes a few ledgers to them. The program packs the bookies' directories and the results that
the version's own classes read from them. If a version cannot do a step, the result has the step's error.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import shutil
import tempfile
from pathlib import Path

from proofs.bookkeeper.cluster import make, pack


def main() -> None:
    """Write the files of one version and print their sizes."""
    parser = argparse.ArgumentParser(prog="python -m proofs.bookkeeper", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--out", type=Path, required=True, help="a directory for the packed files")
    parser.add_argument("--keep", type=Path, help="a new directory for what the cluster leaves behind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bookkeeper-") as scratch:
        root = options.keep or Path(scratch)
        oracle = make(options.version, root)
        options.out.mkdir(parents=True, exist_ok=True)
        pack(root / "bookies", options.out / "bookies.tar.xz")
        log = (root / "several-maps" / "current" / "0.log").read_bytes()
        (options.out / "several-maps.log.xz").write_bytes(lzma.compress(log))
        shutil.copy(root / "dump.jsonl.gz", options.out)
        text = json.dumps(oracle, separators=(",", ":"), sort_keys=True)
        (options.out / "oracle.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    for file in sorted(options.out.iterdir()):
        print(f"{file.stat().st_size:>8} {file.name}")


if __name__ == "__main__":
    main()
