"""Rebuild public bug reports: ``python -m proofs.cases journal-damaged-no-start DbLedgerStorage``.

Each case starts an embedded ZooKeeper and real bookies and creates the state that a report describes. It
prints the findings of ``bkaudit`` and then lets the servers run on. A case asserts nothing. The tests in
tests/clusters assert the correct results.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from proofs.cases.entry_logs import collect_damaged_log, keep_log_per_ledger, lose_log_on_all_copies
from proofs.cases.session import CaseSession
from proofs.cases.starts import damage_journal, remove_all_members, upgrade_index_directories
from tests.servers.bookies.jars import RELEASE

CASES = {
    "gc-drops-behind-a-bit": collect_damaged_log,  # bookkeeper #2264, #2373
    "log-gone-on-all-copies": lose_log_on_all_copies,  # the workaround of bookkeeper #2264; pulsar #9114
    "all-members-removed": remove_all_members,  # pulsar #21751, bookkeeper #2273
    "journal-damaged-no-start": damage_journal,  # bookkeeper #2220, #2176, #3956
    "entry-log-per-ledger": keep_log_per_ledger,  # bookkeeper #2728
    "upgrade-index-directories": upgrade_index_directories,  # bookkeeper #2421
}


def main() -> None:
    """Run one case in a directory of its own, which stays afterwards."""
    parser = argparse.ArgumentParser(prog="python -m proofs.cases", description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("storage", nargs="?", default="DbLedgerStorage")
    parser.add_argument("release", nargs="?", default=RELEASE)
    parser.add_argument("--keep", type=Path, help="a new directory for what the case leaves behind")
    options = parser.parse_args()
    root = options.keep or Path(tempfile.mkdtemp(prefix=f"{options.case}-"))
    root.mkdir(parents=True, exist_ok=True)
    CASES[options.case](CaseSession(root, options.storage, options.release))


if __name__ == "__main__":
    main()
