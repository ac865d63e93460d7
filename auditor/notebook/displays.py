"""Ledgers and bookies of a run that show themselves: as text at a terminal, as HTML in a notebook."""

from __future__ import annotations

from dataclasses import fields

from auditor.model.views import BookieView, LedgerView
from auditor.reports import bookie, cells, ledger


class LedgerDisplay(LedgerView):
    """A ledger that draws itself.

    >>> print(LedgerDisplay(42))
    ledger 42: not in the metadata; bookies hold it
    <BLANKLINE>
    no bookie should hold an entry, and none does
    """

    @classmethod
    def of(cls, view: LedgerView) -> LedgerDisplay:
        """The same ledger, shown."""
        return cls(**{field.name: getattr(view, field.name) for field in fields(view)})

    def __repr__(self) -> str:
        return cells.terminal_text(ledger.render(self))

    def _repr_html_(self) -> str:
        return cells.ledger_cell(self)


class BookieDisplay(BookieView):
    """A bookie that tells of itself."""

    @classmethod
    def of(cls, view: BookieView) -> BookieDisplay:
        """The same bookie, shown."""
        return cls(**{field.name: getattr(view, field.name) for field in fields(view)})

    def __repr__(self) -> str:
        return cells.terminal_text(bookie.render(self))

    def _repr_html_(self) -> str:
        return cells.bookie_cell(self)
