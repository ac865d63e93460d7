"""All fuzz targets."""

from __future__ import annotations

from proofs.fuzz.codecs import CODECS
from proofs.fuzz.readers import READERS
from proofs.fuzz.words import WORDS

TARGETS = (*CODECS, *READERS, *WORDS)
BY_NAME = {target.name: target for target in TARGETS}
