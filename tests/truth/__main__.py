"""Program that prints docs/truth.md: ``python -m tests.truth > docs/truth.md``."""

from __future__ import annotations

from tests.truth.table import page

print(page(), end="")
