"""The placement policy that Pulsar sets for one ledger: a value of its custom metadata (`KEY`).

    {
      "policyClass" : "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy",
      "properties" : {
        "isolationBookieGroups" : "fast,grün",
        "secondaryIsolationBookieGroups" : "slow"
      }
    }

Brokers write this value for topics of namespaces that have a bookie affinity group. Groups are a list, or a
text that is split at commas. Spaces in the text are kept.

A value without ``policyClass``, or with ``properties`` that are null, counts as damaged here.
`EnsemblePlacementPolicyConfig` accepts such a value, but the policy then fails. A value that
`EnsemblePlacementPolicyConfig` itself cannot read is skipped, as the policy does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from auditor.codecs.pulsar.json_value import offset_of, read_json
from auditor.errors import DecodeError
from auditor.model.placement import IsolationGroups

FORMAT_NAME = "Pulsar placement config"
KEY = "EnsemblePlacementPolicyConfig"
"""Key of the placement policy in a ledger's custom metadata."""

_PRIMARY_KEY, _SECONDARY_KEY = "isolationBookieGroups", "secondaryIsolationBookieGroups"


class PlacementConfig(NamedTuple):
    """The class of a placement policy, its properties as written, and the bookie groups in the properties."""

    policy_class: str
    properties: Mapping[str, Any]
    groups: IsolationGroups


def decode(data: bytes) -> PlacementConfig:
    """Read the value of `KEY` in a ledger's custom metadata.

    >>> decode(b'{"policyClass": "a.B", "properties": {"isolationBookieGroups": "x,y"}}').groups
    IsolationGroups(primary=('x', 'y'), secondary=())

    Raises:
        DecodeError: The value is invalid. If it is valid JSON, the offset is that of the invalid field's
            name.
    """
    value = read_json(data, FORMAT_NAME)
    if not isinstance(value, dict):
        raise DecodeError(FORMAT_NAME, 0, "the value is not an object")
    policy, properties = value.get("policyClass"), value.get("properties", {})
    if not isinstance(policy, str):
        raise DecodeError(
            FORMAT_NAME, offset_of(data, "policyClass"), "policyClass is not the name of a class"
        )
    if not isinstance(properties, dict):
        raise DecodeError(FORMAT_NAME, offset_of(data, "properties"), "properties are not an object")
    primary, secondary = (
        _groups(data, name, properties.get(name)) for name in (_PRIMARY_KEY, _SECONDARY_KEY)
    )
    return PlacementConfig(policy, properties, IsolationGroups(primary, secondary))


def _groups(data: bytes, name: str, value: Any) -> tuple[str, ...]:
    """Return the names of the groups in a property.

    A text is split as in Java, which drops empty names at the end.
    """
    match value:
        case None:
            text = ""
        case str():
            text = value
        case list() if all(isinstance(group, str) for group in value):
            text = ",".join(value)
        case int():
            text = json.dumps(value)
        case _:
            raise DecodeError(
                FORMAT_NAME, offset_of(data, name), f"{name} is neither a text nor a list of texts"
            )
    text = text.rstrip(",")
    return tuple(text.split(",")) if text else ()
