"""The published JSON Schemas (2020-12) of reports, findings, differences, failures, plans and so on.

    python -m auditor.reports.schema finding > schemas/finding.schema.json

writes one schema. `_DOCUMENT_SCHEMAS` has the names of all schemas.
"""

import json
import sys
from typing import Any

from auditor.model.comparison import CopyState, ItemTally, StoreDifference, StoreSummary
from auditor.model.decommission import Answer, Rehearsal
from auditor.model.finding_words import CheckId, ConfidenceWord, SeverityWord, UrgencyWord
from auditor.model.history import CHANGE_WORDS, ChangedFinding, ChangeTally, RunSummary
from auditor.model.json_shape import Count, DecimalId, json_object, json_schema
from auditor.model.plan import PLAN_SCHEMA, PlanCheck, RepairPlan
from auditor.model.report import SCHEMA, Cluster, Coverage
from auditor.model.run_facts import RunFacts
from auditor.model.simulation import Simulation
from auditor.model.states import Change, Verdict
from auditor.reports.comparison import COMPARISON_SCHEMA
from auditor.reports.decommission import DECOMMISSION_SCHEMA
from auditor.reports.diff import SCHEMA as DIFF_SCHEMA
from auditor.reports.plan import PLAN_CHECK_SCHEMA
from auditor.reports.simulation import SIMULATION_SCHEMA

_DIALECT_URL = "https://json-schema.org/draft/2020-12/schema"
_TEXT_SCHEMA: dict[str, Any] = {"type": "string"}
_COUNT_SCHEMA = json_schema(Count)
_ID_SCHEMA = json_schema(DecimalId)
_CHECK_SCHEMA = json_schema(CheckId)
_SEVERITY_SCHEMA = json_schema(SeverityWord)
_CONFIDENCE_SCHEMA = json_schema(ConfidenceWord)


def _document_schema(
    id: str, title: str, body_schema: dict[str, Any], definitions: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "$schema": _DIALECT_URL,
        "$id": id,
        "title": title,
        **body_schema,
        **({"$defs": definitions} if definitions else {}),
    }


def finding_schema() -> dict[str, Any]:
    """Return the schema of a finding, which is a line of the jsonl report and an element of report.json."""
    return _document_schema("bookkeeper-auditor/finding/2", "A finding", _finding_object())


def report_schema() -> dict[str, Any]:
    """Return the schema of report.json."""
    counts = {
        "type": "object",
        "additionalProperties": _COUNT_SCHEMA,
        "description": "counts of all findings, by check id",
    }
    body_schema = {
        "schema": {"const": SCHEMA},
        "run": json_schema(RunFacts),
        "cluster": json_schema(Cluster),
        "coverage": json_schema(Coverage),
        "verdict": {"enum": [*Verdict]},
        "counts": counts,
        "findings": {
            **_list_schema(_finding_object()),
            "description": "samples of the findings; the number per check is limited",
        },
    }
    return _document_schema(SCHEMA, "The report of an audit", json_object(body_schema))


def diff_schema() -> dict[str, Any]:
    """Return the schema of ``bkaudit diff --format json``.

    Its ``$defs/changed`` is the schema of a line of the form jsonl.
    """
    counts = json_object(dict.fromkeys((*CHANGE_WORDS, Change.SAME), _COUNT_SCHEMA))
    changed_reference = {"$ref": "#/$defs/changed"}
    body_schema = {
        "schema": {"const": DIFF_SCHEMA},
        "old": {"$ref": "#/$defs/run"},
        "new": {"$ref": "#/$defs/run"},
        "warnings": _list_schema(_TEXT_SCHEMA),
        "counts": {**counts, "description": "counts of all findings, not only of the samples"},
        "tally": {**_list_schema(json_schema(ChangeTally)), "description": "counts of all changed findings"},
        "samples": {
            **_list_schema(changed_reference),
            "description": "samples of the changed findings; the number per kind of change is limited",
        },
    }
    definitions = {"changed": json_schema(ChangedFinding), "run": _summary_schema()}
    return _document_schema(
        DIFF_SCHEMA, "What changed between two runs", json_object(body_schema), definitions
    )


def comparison_schema() -> dict[str, Any]:
    """Return the schema of ``bkaudit compare --format json``.

    Its ``$defs/difference`` is the schema of a line of the form jsonl.
    """
    store_schema, tally_schema = json_schema(StoreSummary), json_schema(ItemTally)
    tally_schema["properties"]["changes"] = json_object(dict.fromkeys(CopyState, _COUNT_SCHEMA))
    body_schema = {
        "schema": {"const": COMPARISON_SCHEMA},
        "source": store_schema,
        "copy": store_schema,
        "verdict": {"enum": ["same", "different", "incomplete"]},
        "tallies": {
            **_list_schema(tally_schema),
            "description": "counts of all records, not only of the samples",
        },
        "gaps": {**_list_schema(_TEXT_SCHEMA), "description": "reasons why some data was not read"},
        "notes": _list_schema(_TEXT_SCHEMA),
        "samples": _list_schema({"$ref": "#/$defs/difference"}),
    }
    title = "Two metadata stores compared"
    return _document_schema(
        COMPARISON_SCHEMA, title, json_object(body_schema), {"difference": json_schema(StoreDifference)}
    )


def simulation_schema() -> dict[str, Any]:
    """Return the schema of ``bkaudit simulate --format json``."""
    body_schema = {"schema": {"const": SIMULATION_SCHEMA}} | json_schema(Simulation)["properties"]
    return _document_schema(SIMULATION_SCHEMA, "Losses that failures would cause", json_object(body_schema))


def decommission_schema() -> dict[str, Any]:
    """Return the schema of ``bkaudit decommission --format json``."""
    schema_head = {
        "schema": {"const": DECOMMISSION_SCHEMA},
        "answer": {"enum": [*Answer]},
        "exit_code": {
            "enum": [0, 1, 3],
            "description": "0: the answer is now. 1: the answer is after or never. 3: the answer is unknown",
        },
    }
    body_schema = json_object(schema_head | json_schema(Rehearsal)["properties"])
    return _document_schema(DECOMMISSION_SCHEMA, "A rehearsal of a decommissioning", body_schema)


def plan_schema() -> dict[str, Any]:
    """Return the schema of ``bkaudit plan show --format json``. A plan's file PLAN.toml has the same keys."""
    plan_body_schema = json_schema(RepairPlan)
    plan_body_schema["properties"]["schema"] = {"const": PLAN_SCHEMA}
    return _document_schema(PLAN_SCHEMA, "A repair plan", plan_body_schema)


def plan_check_schema() -> dict[str, Any]:
    """Return the schema of ``bkaudit plan check --format json``."""
    schema_head = {
        "schema": {"const": PLAN_CHECK_SCHEMA},
        "exit_code": {
            "enum": [0, 1, 3],
            "description": "0: each step is still true or done; 1: a step is no longer true; 3: unknown",
        },
    }
    body_schema = json_object(schema_head | json_schema(PlanCheck)["properties"])
    return _document_schema(PLAN_CHECK_SCHEMA, "A repair plan, checked again", body_schema)


def _summary_schema() -> dict[str, Any]:
    body_schema = json_schema(RunSummary)
    body_schema["properties"]["severities"] = json_object(
        dict.fromkeys(_SEVERITY_SCHEMA["enum"], _COUNT_SCHEMA)
    )
    return body_schema


def _finding_object() -> dict[str, Any]:
    group_schema = {
        "type": "array",
        "prefixItems": [{"type": "integer", "title": name} for name in _GROUP_FIELDS],
        "minItems": len(_GROUP_FIELDS),
        "maxItems": len(_GROUP_FIELDS),
    }
    missing_schema = json_object(
        {"bookie_id": _TEXT_SCHEMA, "groups": _list_schema(group_schema), "count": _COUNT_SCHEMA}
    )
    class_schema = json_object({"groups": _list_schema(group_schema), "count": _COUNT_SCHEMA})
    return json_object(
        {
            "id": _CHECK_SCHEMA,
            "urgency": json_schema(UrgencyWord),
            "severity": _SEVERITY_SCHEMA,
            "confidence": _CONFIDENCE_SCHEMA,
            "scope_id": _ID_SCHEMA,
            "ledger_id": _ID_SCHEMA,
            "ledger_qualified_name": {
                "type": ["string", "null"],
                "pattern": "^[0-9a-f]{32}$",
                "description": "scope and id in 32 hexadecimal digits (BP-35); null if the "
                "finding is not about a ledger",
            },
            "bookie_id": {"type": ["string", "null"]},
            "missing": {
                **_list_schema(missing_schema),
                "description": (
                    "entries that are missing with certainty, for each bookie that should have them"
                ),
            },
            "unknown": {
                **_list_schema(_TEXT_SCHEMA),
                "description": "bookies for which it is unknown whether their copies exist",
            },
            "message": _TEXT_SCHEMA,
            "evidence": {
                "type": "object",
                "properties": {
                    "class_entries": {
                        **class_schema,
                        "type": ["object", "null"],
                        "description": "for entry-lost, below-ack-quorum and below-write-quorum: "
                        "all entries with no copy left, with "
                        "fewer copies than the ack quorum, or with fewer than the write quorum; "
                        "null if they are too irregular "
                        "to list",
                    }
                },
            },
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
            "cause": {
                "type": ["integer", "null"],
                "minimum": 1,
                "description": "number of the cause in report.json that explains the finding; "
                "null if there is none",
            },
        }
    )


_GROUP_FIELDS = ("first_start", "last_start", "size", "period")


def _list_schema(element_schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": element_schema}


_DOCUMENT_SCHEMAS = {
    "finding": finding_schema,
    "report": report_schema,
    "diff": diff_schema,
    "comparison": comparison_schema,
    "simulation": simulation_schema,
    "decommission": decommission_schema,
    "plan": plan_schema,
    "plan-check": plan_check_schema,
}

if __name__ == "__main__":
    print(json.dumps(_DOCUMENT_SCHEMAS[sys.argv[1]](), indent=2))
