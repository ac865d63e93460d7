"""The public names of the package."""

from __future__ import annotations

import pytest

import auditor


def test_every_public_name_exists() -> None:
    for name in auditor.__all__:
        assert getattr(auditor, name).__name__ == name


def test_unknown_public_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        auditor.Nothing  # noqa: B018
