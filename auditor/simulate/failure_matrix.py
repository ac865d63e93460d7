"""The picture of failures: what is lost if two racks go at once, or two bookies where no rack is known."""

from __future__ import annotations

from auditor.model.placement import Level
from auditor.model.simulation import FailureMatrix
from auditor.runs.placement import load_placement
from auditor.runs.reader import RunReader
from auditor.simulate.domains import Domains, SetSums
from auditor.simulate.loss import domain_sets
from auditor.simulate.read import RunWindows
from auditor.simulate.worst_sets import matrix

SHOWN = 24
"""Domains of a matrix at most: those that lose most."""


def failure_matrix(run: RunReader) -> FailureMatrix:
    """The matrix of a run, in one pass over its ledgers.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    _, locations = load_placement(run)
    windows = RunWindows(run.directory, merge=False)
    level = Level.RACK if locations.known else Level.BOOKIE
    domains = Domains(level, locations, windows.numbers.names)
    sums = SetSums(2, max(len(domains.names), 1))
    for part in windows:
        rows, sets = domain_sets(part, domains.of(windows.numbers), True, 2)
        sums.add(sets, part.entries[rows], part.bytes[rows])
    most, bytes = matrix(sums, SHOWN) if domains.names else ([], [])
    names = tuple(domains.names[number] for number in most)
    return FailureMatrix(str(level), names, tuple(map(tuple, bytes)), len(domains.names) - len(names))
