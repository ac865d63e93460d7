from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OxiaShardsRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class OxiaHashRange(_message.Message):
    __slots__ = ("min", "max")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    min: int
    max: int
    def __init__(self, min: _Optional[int] = ..., max: _Optional[int] = ...) -> None: ...

class OxiaShard(_message.Message):
    __slots__ = ("shard", "leader", "hashes")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    leader: str
    hashes: OxiaHashRange
    def __init__(self, shard: _Optional[int] = ..., leader: _Optional[str] = ..., hashes: _Optional[_Union[OxiaHashRange, _Mapping]] = ...) -> None: ...

class OxiaNamespace(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[OxiaShard]
    def __init__(self, shards: _Optional[_Iterable[_Union[OxiaShard, _Mapping]]] = ...) -> None: ...

class OxiaShards(_message.Message):
    __slots__ = ("namespaces",)
    class NamespacesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: OxiaNamespace
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[OxiaNamespace, _Mapping]] = ...) -> None: ...
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.MessageMap[str, OxiaNamespace]
    def __init__(self, namespaces: _Optional[_Mapping[str, OxiaNamespace]] = ...) -> None: ...

class OxiaRangeRequest(_message.Message):
    __slots__ = ("shard", "start", "end")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    shard: int
    start: bytes
    end: bytes
    def __init__(self, shard: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ...) -> None: ...

class OxiaKeys(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class OxiaKeyQuestion(_message.Message):
    __slots__ = ("key", "with_value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WITH_VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    with_value: bool
    def __init__(self, key: _Optional[bytes] = ..., with_value: _Optional[bool] = ...) -> None: ...

class OxiaReadRequest(_message.Message):
    __slots__ = ("shard", "keys")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    keys: _containers.RepeatedCompositeFieldContainer[OxiaKeyQuestion]
    def __init__(self, shard: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[OxiaKeyQuestion, _Mapping]]] = ...) -> None: ...

class OxiaVersion(_message.Message):
    __slots__ = ("id", "modifications", "created", "modified", "session")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    id: int
    modifications: int
    created: int
    modified: int
    session: int
    def __init__(self, id: _Optional[int] = ..., modifications: _Optional[int] = ..., created: _Optional[int] = ..., modified: _Optional[int] = ..., session: _Optional[int] = ...) -> None: ...

class OxiaRecordFound(_message.Message):
    __slots__ = ("status", "version", "value", "key")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    status: int
    version: OxiaVersion
    value: bytes
    key: bytes
    def __init__(self, status: _Optional[int] = ..., version: _Optional[_Union[OxiaVersion, _Mapping]] = ..., value: _Optional[bytes] = ..., key: _Optional[bytes] = ...) -> None: ...

class OxiaRecords(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[OxiaRecordFound]
    def __init__(self, records: _Optional[_Iterable[_Union[OxiaRecordFound, _Mapping]]] = ...) -> None: ...

class OxiaErrorDetail(_message.Message):
    __slots__ = ("type_url", "value")
    TYPE_URL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type_url: str
    value: bytes
    def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class OxiaErrorStatus(_message.Message):
    __slots__ = ("details",)
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    details: _containers.RepeatedCompositeFieldContainer[OxiaErrorDetail]
    def __init__(self, details: _Optional[_Iterable[_Union[OxiaErrorDetail, _Mapping]]] = ...) -> None: ...

class OxiaErrorInfo(_message.Message):
    __slots__ = ("facts",)
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FACTS_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.ScalarMap[str, str]
    def __init__(self, facts: _Optional[_Mapping[str, str]] = ...) -> None: ...

class OxiaNotificationsRequest(_message.Message):
    __slots__ = ("shard", "after")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    shard: int
    after: int
    def __init__(self, shard: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class OxiaChange(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: int
    def __init__(self, kind: _Optional[int] = ...) -> None: ...

class OxiaChangedKey(_message.Message):
    __slots__ = ("key", "change")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    change: OxiaChange
    def __init__(self, key: _Optional[bytes] = ..., change: _Optional[_Union[OxiaChange, _Mapping]] = ...) -> None: ...

class OxiaNotifications(_message.Message):
    __slots__ = ("shard", "offset", "changes")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    offset: int
    changes: _containers.RepeatedCompositeFieldContainer[OxiaChangedKey]
    def __init__(self, shard: _Optional[int] = ..., offset: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[OxiaChangedKey, _Mapping]]] = ...) -> None: ...
