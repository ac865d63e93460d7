"""The published schemas of reports, findings, differences, failures, plans and so on; JSON Schema 2020-12.

python -m auditor.reports.schema finding > schemas/finding.schema.json
python -m auditor.reports.schema report > schemas/report.schema.json
python -m auditor.reports.schema diff > schemas/diff.schema.json
python -m auditor.reports.schema comparison > schemas/comparison.schema.json
python -m auditor.reports.schema simulation > schemas/simulation.schema.json
python -m auditor.reports.schema decommission > schemas/decommission.schema.json
python -m auditor.reports.schema plan > schemas/plan.schema.json
python -m auditor.reports.schema plan-check > schemas/plan-check.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from auditor.model.comparison import CopyState, StoreItem
from auditor.model.decommission import Answer, Rehearsal
from auditor.model.json_shape import Count, Time, json_object, json_schema
from auditor.model.plan import PLAN_SCHEMA, PlanCheck, RepairPlan
from auditor.model.report import SCHEMA, Cluster, Coverage
from auditor.model.run_facts import Changes, CheckId, ConfidenceWord, RunFacts, SeverityWord, UrgencyWord
from auditor.model.simulation import Simulation
from auditor.model.states import Change, Verdict
from auditor.reports.comparison import COMPARISON_SCHEMA
from auditor.reports.decommission import DECOMMISSION_SCHEMA
from auditor.reports.diff import SCHEMA as DIFF_SCHEMA
from auditor.reports.plan import PLAN_CHECK_SCHEMA
from auditor.reports.simulation import SIMULATION_SCHEMA

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}
_COUNT = json_schema(Count)
_MS = json_schema(Time)
_ID: dict[str, Any] = {"type": ["string", "null"], "pattern": "^(0|-?[1-9][0-9]*)$"}
_CHECK = json_schema(CheckId)
_SEVERITY = json_schema(SeverityWord)
_CONFIDENCE = json_schema(ConfidenceWord)
CHANGED_KINDS = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNSEEN)
_KIND: dict[str, Any] = {
    "enum": list(CHANGED_KINDS),
    "description": "unseen: neither found nor ruled out, as what it rests on was not read",
}


def finding_schema() -> dict[str, Any]:
    """A finding: a line of the jsonl report, and an item of report.json."""
    return {
        "$schema": _DIALECT,
        "$id": "bookkeeper-auditor/finding/2",
        "title": "A finding",
        **_finding(),
    }


def report_schema() -> dict[str, Any]:
    """report.json."""
    return {
        "$schema": _DIALECT,
        "$id": SCHEMA,
        "title": "The report of an audit",
        **json_object(
            {
                "schema": {"const": SCHEMA},
                "run": json_schema(RunFacts),
                "cluster": json_schema(Cluster),
                "coverage": json_schema(Coverage),
                "verdict": {"enum": [*Verdict]},
                "counts": {
                    "type": "object",
                    "additionalProperties": _COUNT,
                    "description": "complete, by id",
                },
                "findings": {**_list(_finding()), "description": "samples, a bounded number of each id"},
            }
        ),
    }


def diff_schema() -> dict[str, Any]:
    """What ``bkaudit diff --format json`` prints; ``$defs/changed`` is a line of its jsonl."""
    counts = json_object(dict.fromkeys((*CHANGED_KINDS, Change.SAME), _COUNT))
    tally = json_object({"change": _KIND, "id": _CHECK, "severity": _SEVERITY, "count": _COUNT})
    changed = {"$ref": "#/$defs/changed"}
    return {
        "$schema": _DIALECT,
        "$id": DIFF_SCHEMA,
        "title": "What changed between two runs",
        **json_object(
            {
                "schema": {"const": DIFF_SCHEMA},
                "old": {"$ref": "#/$defs/run"},
                "new": {"$ref": "#/$defs/run"},
                "warnings": _list(_TEXT),
                "counts": {**counts, "description": "complete"},
                "tally": {**_list(tally), "description": "complete, but for the same ones"},
                "samples": {**_list(changed), "description": "a bounded number of each change"},
            }
        ),
        "$defs": {"changed": _change_schema(), "run": _summary()},
    }


def comparison_schema() -> dict[str, Any]:
    """What ``bkaudit compare --format json`` prints; ``$defs/difference`` is a line of its jsonl."""
    item, store = {"enum": [*StoreItem]}, json_object(dict.fromkeys(("uri", "position", "layout"), _TEXT))
    numbers = dict.fromkeys(("source", "copy", "same"), _COUNT)
    tally = json_object({"item": item, **numbers, "changes": json_object(dict.fromkeys(CopyState, _COUNT))})
    difference = json_object(
        {
            "item": item,
            "change": {"enum": [*CopyState]},
            "path": {**_TEXT, "description": "where it is kept; of owners below the chroot"},
            "scope_id": {**_ID, "description": "decimal; null where no ledger is meant"},
            "ledger_id": {**_ID, "description": "decimal; null where no ledger is meant"},
            "fields": {**_list(_TEXT), "description": "what differs of a ledger, name: source / copy"},
            "why": {"type": ["string", "null"], "description": "what leaves it undecided"},
        }
    )
    return {
        "$schema": _DIALECT,
        "$id": COMPARISON_SCHEMA,
        "title": "Two metadata stores compared",
        **json_object(
            {
                "schema": {"const": COMPARISON_SCHEMA},
                "source": store,
                "copy": store,
                "verdict": {"enum": ["same", "different", "incomplete"]},
                "tallies": {**_list(tally), "description": "complete"},
                "gaps": {**_list(_TEXT), "description": "what was not read"},
                "notes": _list(_TEXT),
                "samples": _list({"$ref": "#/$defs/difference"}),
            }
        ),
        "$defs": {"difference": difference},
    }


def simulation_schema() -> dict[str, Any]:
    """What ``bkaudit simulate --format json`` prints."""
    shape = json_schema(Simulation)
    return {
        "$schema": _DIALECT,
        "$id": SIMULATION_SCHEMA,
        "title": "What failures would cost",
        **json_object({"schema": {"const": SIMULATION_SCHEMA}, **shape["properties"]}),
    }


def decommission_schema() -> dict[str, Any]:
    """What ``bkaudit decommission --format json`` prints."""
    head = {
        "schema": {"const": DECOMMISSION_SCHEMA},
        "answer": {"enum": [*Answer]},
        "exit_code": {"enum": [0, 1, 3], "description": "0 now; 1 after, never; 3 unknown"},
    }
    return {
        "$schema": _DIALECT,
        "$id": DECOMMISSION_SCHEMA,
        "title": "A rehearsed decommissioning",
        **json_object(head | json_schema(Rehearsal)["properties"]),
    }


def plan_schema() -> dict[str, Any]:
    """What ``bkaudit plan show --format json`` prints; PLAN.toml has the same keys."""
    made = json_schema(RepairPlan)
    made["properties"]["schema"] = {"const": PLAN_SCHEMA}
    return {"$schema": _DIALECT, "$id": PLAN_SCHEMA, "title": "A plan of repair", **made}


def plan_check_schema() -> dict[str, Any]:
    """What ``bkaudit plan check --format json`` prints."""
    head = {
        "schema": {"const": PLAN_CHECK_SCHEMA},
        "exit_code": {"enum": [0, 1, 3], "description": "0 still true or done; 1 no longer true; 3 unknown"},
    }
    return {
        "$schema": _DIALECT,
        "$id": PLAN_CHECK_SCHEMA,
        "title": "A plan of repair, asked again",
        **json_object(head | json_schema(PlanCheck)["properties"]),
    }


def _change_schema() -> dict[str, Any]:
    return json_object(
        {
            "change": _KIND,
            "id": _CHECK,
            "severity": {**_SEVERITY, "description": "in the newer run that found it"},
            "previous_severity": {"enum": [*_SEVERITY["enum"], None], "description": "null: it is new"},
            "confidence": _CONFIDENCE,
            "previous_confidence": {"enum": [*_CONFIDENCE["enum"], None], "description": "null: it is new"},
            "scope_id": {**_ID, "description": "decimal; null where no ledger is meant"},
            "ledger_id": {**_ID, "description": "decimal; null where no ledger is meant"},
            "bookie_id": {"type": ["string", "null"]},
            "missing": {**_COUNT, "description": "entries confirmed absent, over all bookies"},
            "previous_missing": {"type": ["integer", "null"], "minimum": 0},
            "first_seen": _MS,
            "last_seen": _MS,
            "suppressed": {"type": ["string", "null"], "description": "the reason of a suppression"},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        }
    )


def _summary() -> dict[str, Any]:
    return json_object(
        {
            "path": _TEXT,
            "started": _MS,
            "finished": _MS,
            "scan_time": _MS,
            "instance_id": {"type": ["string", "null"]},
            "metadata_uri": _TEXT,
            "verdict": {"enum": [*Verdict]},
            "complete": {"type": "boolean"},
            "severities": json_object(dict.fromkeys(_SEVERITY["enum"], _COUNT)),
            "counts": {"type": "object", "additionalProperties": _COUNT},
            "changes": json_schema(Changes | None),
        }
    )


def _finding() -> dict[str, Any]:
    group = {
        "type": "array",
        "prefixItems": [{"type": "integer", "title": name} for name in _GROUP],
        "minItems": len(_GROUP),
        "maxItems": len(_GROUP),
    }
    missing = json_object({"bookie_id": _TEXT, "groups": _list(group), "count": _COUNT})
    in_class = json_object({"groups": _list(group), "count": _COUNT})
    return json_object(
        {
            "id": _CHECK,
            "urgency": json_schema(UrgencyWord),
            "severity": _SEVERITY,
            "confidence": _CONFIDENCE,
            "scope_id": {**_ID, "description": "decimal; null where no ledger is meant"},
            "ledger_id": {**_ID, "description": "decimal; null where no ledger is meant"},
            "ledger_qualified_name": {
                "type": ["string", "null"],
                "pattern": "^[0-9a-f]{32}$",
                "description": "scope and id in hexadecimal, as BP-35 has it; null where no ledger is meant",
            },
            "bookie_id": {"type": ["string", "null"]},
            "missing": {**_list(missing), "description": "every striped entry confirmed absent, by bookie"},
            "unknown": {**_list(_TEXT), "description": "bookies whose copies are unknown"},
            "message": _TEXT,
            "evidence": {
                "type": "object",
                "properties": {
                    "class_entries": {
                        **in_class,
                        "type": ["object", "null"],
                        "description": "of entry-lost, below-ack-quorum and below-write-quorum: all entries "
                        "with no copy left, fewer than the ack quorum, or fewer than the write quorum; null: "
                        "too irregular to list",
                    }
                },
            },
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
            "cause": {
                "type": ["integer", "null"],
                "minimum": 1,
                "description": "the number of the cause in report.json that explains it; null: none does",
            },
        }
    )


_GROUP = ("first_start", "last_start", "size", "period")


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


if __name__ == "__main__":
    schema = {
        "finding": finding_schema,
        "report": report_schema,
        "diff": diff_schema,
        "comparison": comparison_schema,
        "simulation": simulation_schema,
        "decommission": decommission_schema,
        "plan": plan_schema,
        "plan-check": plan_check_schema,
    }[sys.argv[1]]
    print(json.dumps(schema(), indent=2))
