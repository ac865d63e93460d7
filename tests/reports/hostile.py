"""A finding in which an attacker wrote every text."""

from __future__ import annotations

from auditor.model.finding import Confidence, Finding, Missing, Severity

BOOKIE = "=cmd|'/C calc'!A0\x1b[31m\n</failure>]]><script>alert(1)</script>|`@all` #1 [x](http://evil.example)\u202e"
HOSTILE = Finding(
    "ghost-bookie",
    Severity.ERROR,
    Confidence.CONFIRMED,
    -1,
    -7,
    BOOKIE,
    missing=(Missing(BOOKIE, ((0, 0, 1, 0),), 1),),
    unknown=(BOOKIE,),
    message=f"+{BOOKIE} & {{0}} **bold** <img src=x> www.evil.example https://evil.example \x00",
    evidence={"said": BOOKIE, "alone": "\ud800"},
    fingerprint="00000000000000ff",
)
