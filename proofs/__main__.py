"""Print docs/proofs.md: ``python -m proofs > docs/proofs.md``."""

from __future__ import annotations

from proofs.programs import page

print(page(), end="")
