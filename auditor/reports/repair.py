"""The line ``repair`` of the first screen: replication workers, ledgers that wait, and the remaining time."""

from auditor.model.amounts import duration, plural
from auditor.model.repair import RepairFacts


def repair_line(facts: RepairFacts, scan_time: int) -> str | None:
    """Return the text of the line ``repair``. None if the run did not read the state of AutoRecovery.

    Args:
        facts: Facts on repair of a finished run.
        scan_time: Scan time of the same run, in ms since 1970, UTC.
    """
    if not facts["sees_autorecovery"]:
        return None
    parts = [_auditor_words(facts), _queue_words(facts, scan_time)]
    if facts["disabled"]:
        parts.insert(0, "replication is switched off")
    return "; ".join(parts)


def _auditor_words(facts: RepairFacts) -> str:
    if not facts["votes"]:
        return "no auditor and no worker"
    processes = plural(facts["votes"], "AutoRecovery process", "AutoRecovery processes")
    if facts["auditor"] is None:
        return f"the auditor's vote cannot be read, {processes}"
    down_clause = " (not registered)" if facts["auditor_down"] else ""
    return f"auditor on {facts['auditor']}{down_clause}, {processes}"


def _queue_words(facts: RepairFacts, scan_time: int) -> str:
    if not facts["queued"]:
        unmarked_text = plural(
            facts["waiting"],
            "ledger needs repair, but has no under-replication mark",
            "ledgers need repair, but have no under-replication mark",
        )
        return f"no ledger queued{f', {unmarked_text}' if facts['waiting'] else ''}"
    parts = [f"{plural(facts['queued'], 'ledger')} queued"]
    if facts["oldest"] is not None:
        parts.append(f"oldest {duration(max(scan_time - facts['oldest'], 0) / 1000)}")
    if facts["repaired_per_hour"] is not None:
        parts.append(f"{facts['repaired_per_hour']:,} an hour since the previous run")
    if facts["remaining_ms"] is not None:
        parts.append(f"about {duration(facts['remaining_ms'] / 1000)} left")
    return ", ".join(parts)
