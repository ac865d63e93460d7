"""Hexadecimal digits as reports write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


def small_digits(digits: Column | str) -> Column:
    """Hexadecimal digits in small letters.

    Spark's ``lower`` knows all alphabets, and reads tables of them the first time that it is asked: two
    seconds of a small audit.
    """
    return F.translate(digits, "ABCDEF", "abcdef")
