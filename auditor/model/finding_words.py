"""JSON types for the words in findings, with descriptions for the published schemas."""

from typing import Annotated

from auditor.model.finding import Confidence, Severity, Urgency
from auditor.model.json_shape import SchemaFacet, about

CheckId = Annotated[str, SchemaFacet("pattern", "^[a-z]+(-[a-z]+)*$"), about("the check's id")]
SeverityWord = Annotated[str, SchemaFacet("enum", (*Severity,))]
UrgencyWord = Annotated[str, SchemaFacet("enum", (*Urgency,))]
ConfidenceWord = Annotated[str, SchemaFacet("enum", (*Confidence,))]
