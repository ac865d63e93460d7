"""All targets."""

from __future__ import annotations

from tests.fuzz.codecs import CODECS
from tests.fuzz.readers import READERS
from tests.fuzz.words import WORDS

TARGETS = (*CODECS, *READERS, *WORDS)
BY_NAME = {target.name: target for target in TARGETS}
