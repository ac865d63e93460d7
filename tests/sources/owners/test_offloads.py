"""The state of the object-store copies of a topic's ledgers, read from their offload contexts."""

from __future__ import annotations

from typing import Any

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarManagedLedgerInfo
from auditor.sources.owners.pulsar import read_owner

TOPIC = "managed-ledgers/shop/orders/persistent/returns"
UID = {"uidMsb": 1, "uidLsb": 2}


def state(**context: Any) -> str | None:
    info = PulsarManagedLedgerInfo()
    ledger = info.ledgerInfo.add(ledgerId=7)
    ledger.offloadContext.CopyFrom(type(ledger.offloadContext)(**context))
    owner = read_owner(TOPIC, info.SerializeToString())
    assert owner is not None
    return owner.references[0].offload


def test_offload_context_gives_the_state_of_the_copy() -> None:
    assert state() is None
    assert state(**UID) == "incomplete"
    assert state(**UID, complete=True) == "complete"
    assert state(**UID, complete=True, bookkeeperDeleted=True) == "deleted"


def test_streaming_offload_segments_alone_are_not_an_offload() -> None:
    segment = {**UID, "complete": True, "endEntryId": 9}
    assert state(offloadSegment=[segment]) is None
