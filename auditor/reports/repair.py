"""The line ``repair`` of the first screen.

It has the AutoRecovery processes, the ledgers that wait for repair, and the remaining time.
"""

from auditor.model.amounts import duration, plural
from auditor.model.repair import RepairFacts


def repair_line(repair_facts: RepairFacts, scan_time: int) -> str | None:
    """Return the text of the line ``repair``. None if the run did not read the state of AutoRecovery.

    Args:
        repair_facts: The facts on repair from a finished run.
        scan_time: Scan time of the same run, in ms since 1970, UTC.
    """
    if not repair_facts["sees_autorecovery"]:
        return None
    parts = [_auditor_text(repair_facts), _queue_text(repair_facts, scan_time)]
    if repair_facts["disabled"]:
        parts.insert(0, "replication is switched off")
    return "; ".join(parts)


def _auditor_text(repair_facts: RepairFacts) -> str:
    if not repair_facts["votes"]:
        return "no auditor and no worker"
    processes_text = plural(repair_facts["votes"], "AutoRecovery process", "AutoRecovery processes")
    if repair_facts["auditor"] is None:
        return f"the auditor's election vote is unreadable; {processes_text}"
    down_clause = " (not registered)" if repair_facts["auditor_down"] else ""
    return f"auditor on {repair_facts['auditor']}{down_clause}, {processes_text}"


def _queue_text(repair_facts: RepairFacts, scan_time: int) -> str:
    if not repair_facts["queued"]:
        unmarked_text = plural(
            repair_facts["waiting"],
            "ledger needs repair, but has no under-replication mark",
            "ledgers need repair, but have no under-replication mark",
        )
        return f"no ledgers queued{f', {unmarked_text}' if repair_facts['waiting'] else ''}"
    parts = [f"{plural(repair_facts['queued'], 'ledger')} queued"]
    if repair_facts["oldest"] is not None:
        parts.append(f"oldest {duration(max(scan_time - repair_facts['oldest'], 0) / 1000)}")
    if repair_facts["repaired_per_hour"] is not None:
        parts.append(f"{repair_facts['repaired_per_hour']:,} repaired per hour since the previous run")
    if repair_facts["remaining_ms"] is not None:
        parts.append(f"about {duration(repair_facts['remaining_ms'] / 1000)} left")
    return ", ".join(parts)
