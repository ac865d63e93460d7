"""A finished run as one HTML page: the input of `auditor.reports.html`, read without Spark."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import get_args

from auditor.errors import RunError
from auditor.model.finding import Finding, no_change_status
from auditor.model.history import RunSummary
from auditor.model.report_source import OwnerFigures, OwnerLevel
from auditor.model.simulation import FailureMatrix
from auditor.reports import html
from auditor.reports import owners as owners_form
from auditor.runs.change_status import statuses_in_order, statuses_of_report
from auditor.runs.disk_forecasts import disk_totals
from auditor.runs.figures import figures_of
from auditor.runs.load_ledger import ledger_views
from auditor.runs.load_space import bookies_space
from auditor.runs.owners import Leaks, OwnerTotals, has_owners
from auditor.runs.reader import RunReader
from auditor.runs.siblings import find_siblings, sort_by_finish


def page_of(run: RunReader, failures: FailureMatrix | None = None) -> Iterator[str]:
    """Yield the HTML page of a run in parts.

    The page also shows the worst ledgers and earlier runs. ``failures`` has the effects that the failure of
    each domain, such as a rack, would have. If it is None, the page leaves these effects out.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    report = run.report
    worst_ledger_keys = worst_ledgers(report.findings, html.MAX_LEDGERS_DRAWN)
    ledgers = [ledger for ledger in ledger_views(run, worst_ledger_keys) if ledger is not None]
    statuses = statuses_of_report(run.path, report)
    runs, hidden_run_count = _neighbouring_runs(run)
    name = run.path.rstrip("/")
    figures = replace(
        figures_of(run),
        space=bookies_space(run),
        disks=disk_totals(run),
        owners=_owner_figures(run),
        failures=failures,
    )
    # Where there is no run before, and nothing is suppressed, there is nothing to say: all would be new.
    has_comparison = report.run.changes is not None or report.run.suppressions
    find_status = statuses_in_order(run.path) if has_comparison else no_change_status
    findings = ((finding, find_status(finding.fingerprint)) for finding in run.findings)
    return html.render(report, figures, ledgers, runs, statuses, name, hidden_run_count, findings)


def worst_ledgers(findings: Iterable[Finding], max_ledgers: int) -> list[tuple[int, int]]:
    """Return at most ``max_ledgers`` ledgers to draw, as pairs of ledger id and scope id, the worst first.

    The scope id is the upper half of a 128-bit ledger id. Only ledgers with missing entries are drawn,
    because other ledgers have no holes to show. The first ledger of each check takes precedence, then the
    second ledger of each check, and so on. ``findings`` must be sorted, the worst first.
    """
    last_rank_by_check: dict[str, int] = {}
    ranks_by_ledger: dict[tuple[int, int], tuple[int, int]] = {}
    for finding_position, finding in enumerate(findings):
        if finding.missing and finding.ledger_id is not None and finding.scope_id is not None:
            ledger = (finding.ledger_id, finding.scope_id)
            if ledger not in ranks_by_ledger:
                last_rank_by_check[finding.id] = check_rank = last_rank_by_check.get(finding.id, -1) + 1
                ranks_by_ledger[ledger] = (check_rank, finding_position)
    chosen_ledgers = sorted(ranks_by_ledger, key=lambda ledger: ranks_by_ledger[ledger])[:max_ledgers]
    return sorted(chosen_ledgers, key=lambda ledger: ranks_by_ledger[ledger][1])


def _owner_figures(run: RunReader) -> OwnerFigures | None:
    if not has_owners(run):
        return None
    owner_totals, leaks = OwnerTotals(run), Leaks(run)
    totals_by_level = {
        owner_level: owner_totals.totals_of(owner_level) for owner_level in get_args(OwnerLevel)
    }
    shown_totals_by_level = {
        owner_level: tuple(level_totals[: owners_form.MAX_HTML_OWNERS[owner_level]])
        for owner_level, level_totals in totals_by_level.items()
    }
    counts_by_level = {
        owner_level: len(level_totals) for owner_level, level_totals in totals_by_level.items()
    }
    first_leaks = tuple(islice(leaks, owners_form.MAX_HTML_LEAKS))
    return OwnerFigures(
        shown_totals_by_level, counts_by_level, first_leaks, leaks.totals(), run.report.run.scan_time
    )


def _neighbouring_runs(run: RunReader) -> tuple[list[RunSummary], list[str]]:
    """Return the cluster's runs in the same directory, the oldest first, and notes on unreadable runs."""
    own_summary = RunSummary.from_report(run.path, run.report)
    runs, hidden_run_count = [], []
    try:
        for _, summary in find_siblings(run.path, run.report.cluster):
            if isinstance(summary, RunError):
                hidden_run_count.append(f"not in the history: {summary}")
            else:
                runs.append(summary)
    except RunError as error:
        hidden_run_count.append(f"no history of runs: {error}")
    return list(sort_by_finish(runs)) or [own_summary], hidden_run_count
