"""The published schemas of reports, findings, and differences of runs and of stores, as JSON Schema 2020-12.

python -m auditor.reports.schema finding > schemas/finding.schema.json
python -m auditor.reports.schema report > schemas/report.schema.json
python -m auditor.reports.schema diff > schemas/diff.schema.json
python -m auditor.reports.schema comparison > schemas/comparison.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from auditor.model.comparison import CopyState, StoreItem
from auditor.model.finding import Confidence, Severity
from auditor.model.placement import Policy
from auditor.model.report import SCHEMA
from auditor.model.states import Change, Verdict
from auditor.reports.comparison import COMPARISON_SCHEMA
from auditor.reports.diff import SCHEMA as DIFF_SCHEMA

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_MS: dict[str, Any] = {"type": "integer", "description": "milliseconds since 1970, UTC"}
_ID: dict[str, Any] = {"type": ["string", "null"], "pattern": "^(0|-?[1-9][0-9]*)$"}
_CHECK: dict[str, Any] = {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "description": "the check's id"}
_SEVERITY: dict[str, Any] = {"enum": [str(severity) for severity in Severity]}
_CONFIDENCE: dict[str, Any] = {"enum": [str(confidence) for confidence in Confidence]}
CHANGED_KINDS = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNSEEN)
_KIND: dict[str, Any] = {
    "enum": list(CHANGED_KINDS),
    "description": "unseen: neither found nor ruled out, as what it rests on was not read",
}


def finding_schema() -> dict[str, Any]:
    """A finding: a line of the jsonl report, and an item of report.json."""
    return {
        "$schema": _DIALECT,
        "$id": "bookkeeper-auditor/finding/1",
        "title": "A finding",
        **_finding(),
    }


def report_schema() -> dict[str, Any]:
    """report.json."""
    decided = _object({"total": _COUNT, "decided": _COUNT})
    return {
        "$schema": _DIALECT,
        "$id": SCHEMA,
        "title": "The report of an audit",
        **_object(
            {
                "schema": {"const": SCHEMA},
                "run": _run_schema(),
                "cluster": _object(
                    {"instance_id": {"type": ["string", "null"]}, "metadata_uri": _TEXT, "layout": _TEXT}
                ),
                "coverage": _object(
                    {
                        "ledgers": decided,
                        "bookies": _object({"expected": _COUNT, "read": _COUNT, "unread": _list(_TEXT)}),
                        "replicas": _object({"expected": _COUNT, "decided": _COUNT}),
                    }
                ),
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
    counts = _object(dict.fromkeys((*CHANGED_KINDS, Change.SAME), _COUNT))
    tally = _object({"change": _KIND, "id": _CHECK, "severity": _SEVERITY, "count": _COUNT})
    changed = {"$ref": "#/$defs/changed"}
    return {
        "$schema": _DIALECT,
        "$id": DIFF_SCHEMA,
        "title": "What changed between two runs",
        **_object(
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
    item, store = {"enum": [*StoreItem]}, _object(dict.fromkeys(("uri", "position", "layout"), _TEXT))
    numbers = dict.fromkeys(("source", "copy", "same"), _COUNT)
    tally = _object({"item": item, **numbers, "changes": _object(dict.fromkeys(CopyState, _COUNT))})
    difference = _object(
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
        **_object(
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


def _change_schema() -> dict[str, Any]:
    return _object(
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
    return _object(
        {
            "path": _TEXT,
            "started": _MS,
            "finished": _MS,
            "scan_time": _MS,
            "instance_id": {"type": ["string", "null"]},
            "metadata_uri": _TEXT,
            "verdict": {"enum": [*Verdict]},
            "complete": {"type": "boolean"},
            "severities": _object(dict.fromkeys(_SEVERITY["enum"], _COUNT)),
            "counts": {"type": "object", "additionalProperties": _COUNT},
            "changes": {"anyOf": [{"type": "null"}, _changes()]},
        }
    )


def _finding() -> dict[str, Any]:
    group = {
        "type": "array",
        "prefixItems": [{"type": "integer", "title": name} for name in _GROUP],
        "minItems": len(_GROUP),
        "maxItems": len(_GROUP),
    }
    missing = _object({"bookie_id": _TEXT, "groups": _list(group), "count": _COUNT})
    return _object(
        {
            "id": _CHECK,
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
            "evidence": {"type": "object"},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        }
    )


_GROUP = ("first_start", "last_start", "size", "period")


def _run_schema() -> dict[str, Any]:
    tally = _object(
        {
            "id": _CHECK,
            "severity": _SEVERITY,
            "confidence": _CONFIDENCE,
            "count": _COUNT,
            "new": {**_COUNT, "description": "not in the run before, and not suppressed"},
            "worse": {**_COUNT, "description": "less bad in the run before, and not suppressed"},
            "suppressed": {**_COUNT, "description": "of count, those that a suppression names"},
        }
    )
    return _object(
        {
            "version": _TEXT,
            "started": _MS,
            "finished": _MS,
            "scan_time": _MS,
            "live": {"type": "boolean"},
            "positions": _list(_TEXT),
            "bookie_sources": _list(_TEXT),
            "entry_logs": {"type": "boolean", "description": "whether the bookies' entry logs were read"},
            "owners": {
                "type": "boolean",
                "description": "whether an application's lists of ledgers were read",
            },
            "offload_listing": {
                "type": "boolean",
                "description": "whether an inventory of the bucket of offloaded ledgers was read",
            },
            "operations": {"type": "object", "additionalProperties": _COUNT},
            "gaps": _list(_TEXT),
            "resumed": {
                **_MS,
                "type": ["integer", "null"],
                "description": "of the oldest table that a run which broke off had left",
            },
            "in_doubt": {
                "anyOf": [{"type": "null"}, _in_doubt()],
                "description": "ids that may be there unseen; null: none",
            },
            "notes": _list(_TEXT),
            "tally": _list(tally),
            "impact": {**_list(_impact()), "description": "by severity, of findings about ledgers"},
            "changes": {
                "anyOf": [{"type": "null"}, _changes()],
                "description": "null: there is no earlier run to compare with",
            },
            "suppressions": {**_list(_suppression()), "description": "of the suppressions file, in order"},
            "accepted": {
                **_object({"bookies": _list(_TEXT), "ledgers": _COUNT, "replicas": _COUNT}),
                "description": "what is not decided for reasons that suppressions name",
            },
            "reused": {
                "anyOf": [{"type": "null"}, _reuse_schema()],
                "description": "what was taken from an earlier run (--since); null: all was read",
            },
            **_sight_schema(),
        }
    )


def _sight_schema() -> dict[str, Any]:
    """What the store keeps and what was asked; null where an earlier version wrote the run."""

    def known(what: str) -> dict[str, Any]:
        return {"type": ["boolean", "null"], "description": what}

    hidden = {"type": ["string", "null"], "description": "a place where any bookie's could be, and why"}
    listed = _object({"hidden": hidden, "unclear": {**_list(_TEXT), "description": "bookies"}})
    return {
        "keeps_marks": known("whether the metadata store keeps under-replication marks"),
        "keeps_times": known("whether it keeps when something was made and changed"),
        "marks_listed": known("whether all its marks could be listed"),
        "bookies_listed": {
            "anyOf": [{"type": "null"}, listed],
            "description": "cookies and registrations that could not be read",
        },
        "directories_read": {
            **_COUNT,
            "type": ["integer", "null"],
            "description": "directories of bookies that were found; 0: bookies were only asked, or none was",
        },
        "witness_asked": known("whether bookies could be asked for entries"),
        "blind": {
            "anyOf": [{"type": "null"}, _list(_CHECK)],
            "description": "checks that saw nothing at all: that they found nothing means nothing",
        },
        "placement": {
            "anyOf": [{"type": "null"}, _placement()],
            "description": "policy and locations; null: no mapping was found and no policy chosen",
        },
    }


def _placement() -> dict[str, Any]:
    return _object(
        {
            "policy": {"enum": [*Policy]},
            "settings": {"type": "object", "description": "of its server class, by name"},
            "policy_origin": {**_TEXT, "description": "what chose the policy"},
            "mapping_origin": {"type": ["string", "null"], "description": "what says where bookies stand"},
            "located": {**_COUNT, "description": "bookies with a location"},
            "unlocated": {**_COUNT, "description": "bookies without one"},
        }
    )


def _in_doubt() -> dict[str, Any]:
    ids = {"type": ["string", "null"], "pattern": "^[1-9][0-9]*$", "description": "how many; null: every id"}
    return _object({"ids": ids, "reasons": {**_list(_TEXT), "description": "why, a bounded sample"}})


def _reuse_schema() -> dict[str, Any]:
    taken = _object({"reused": _COUNT, "read": _COUNT})
    name = {**_TEXT, "description": "the name of its directory"}
    why = {**_list(_TEXT), "description": "why some things were read all the same"}
    return _object({"run": name, "indexes": taken, "ledgers": taken, "notes": why})


def _impact() -> dict[str, Any]:
    length = {**_COUNT, "description": "lengths as metadata has them, of one copy"}
    return _object({"severity": _SEVERITY, "ledgers": _COUNT, "bytes": length})


def _changes() -> dict[str, Any]:
    unseen = {**_COUNT, "description": "neither found nor ruled out: what they rest on was not read"}
    names = ("new", "fixed", "worse", "better", "same")
    return _object(
        {
            "previous": {**_TEXT, "description": "the name of that run's directory"},
            "finished": _MS,
            **dict.fromkeys(names, _COUNT),
            "unseen": unseen,
        }
    )


def _suppression() -> dict[str, Any]:
    until = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "description": "the last day"}
    return _object({"reason": _TEXT, "until": until, "count": _COUNT, "expired": {"type": "boolean"}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """All keys are always present, and there are no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


if __name__ == "__main__":
    schema = {
        "finding": finding_schema,
        "report": report_schema,
        "diff": diff_schema,
        "comparison": comparison_schema,
    }[sys.argv[1]]
    print(json.dumps(schema(), indent=2))
