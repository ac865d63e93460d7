"""JSON types for the words in findings, with descriptions for the published schemas."""

from typing import Annotated

from auditor.model.finding import Confidence, Severity, Urgency
from auditor.model.json_shape import Facet, about

CheckId = Annotated[str, Facet("pattern", "^[a-z]+(-[a-z]+)*$"), about("the check's id")]
SeverityWord = Annotated[str, Facet("enum", (*Severity,))]
UrgencyWord = Annotated[str, Facet("enum", (*Urgency,))]
ConfidenceWord = Annotated[str, Facet("enum", (*Confidence,))]
