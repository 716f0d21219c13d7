"""Fingerprints name plans and operators: equal values have the same name, in every process and at any time.

These names identify shared operators and their state. `repr` is not suitable: equal sets may print in different orders,
and it stays the same when the meaning of a class changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, lru_cache, singledispatch
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from dsms.model.identity_memo import memoized_by_identity
from dsms.model.objects import Source
from operators.core.stored_names import ADDED_LATER

#: With 80 bits, the probability that two of a million different plans have the same name is below 10^-12.
_HEX_DIGITS = 20
#: Fields of a source that describe the state of its topic in Kafka, which changes after the source is registered.
_TOPIC_FIELDS = ("topic_id", "marked_by", "added_partitions", "adding_partitions_since", "skipped", "skipping", "homes")
#: How many fingerprints of plans are memoized.
_MEMO_SIZE = 1 << 14


def fingerprint(value: object) -> str:
    """Twenty hexadecimal digits, equal for two values if and only if they have the same type and content.

    It does not depend on the order of a set or mapping, on the process, or on the module that defines a class. Fields
    excluded from comparison are left out, and so are fields marked `ADDED_LATER` that have their default value. The
    `operator_version` of an operator is included.

    Raises TypeError for a mutable value (a dataclass that is not frozen) and for a type with no known encoding.

    >>> fingerprint(frozenset({0, 8})) == fingerprint(frozenset({8, 0}))
    True
    >>> len({fingerprint(value) for value in (1, 1.0, True, "1", b"1", None, (1,), [1], ((1,),))})
    9
    """
    return hashlib.sha256(_encoded(value)).hexdigest()[:_HEX_DIGITS]


@singledispatch
def _encoded(value: Any) -> bytes:
    """An injective encoding of a value: a tag for its type, then its content."""
    if is_dataclass(value) and not isinstance(value, type):
        return _digest_of_dataclass(value)
    raise TypeError(f"a value of type {type(value).__qualname__} has no fingerprint")


@_encoded.register(type(None))
@_encoded.register(bool)
@_encoded.register(int)
@_encoded.register(float)
@_encoded.register(Decimal)
@_encoded.register(date)
@_encoded.register(datetime)
@_encoded.register(time)
@_encoded.register(timedelta)
def _scalar(value: object) -> bytes:
    return _tagged(type(value), repr(value).encode())


@_encoded.register(str)
@lru_cache(_MEMO_SIZE, typed=True)
def _text(value: str) -> bytes:
    return _scalar(value)


@_encoded.register
def _(value: bytes) -> bytes:
    return _tagged(bytes, value)


@_encoded.register
def _(value: pa.DataType) -> bytes:
    return _tagged(pa.DataType, str(value).encode())


@_encoded.register
def _(value: pa.Field) -> bytes:  # type: ignore[type-arg]
    return _tagged(pa.Field, *map(_encoded, (value.name, value.type, value.nullable)))


@_encoded.register
def _(value: pa.Schema) -> bytes:
    return _tagged(pa.Schema, *map(_encoded, value))


@_encoded.register(tuple)
@_encoded.register(list)
def _sequence(value: Iterable[object]) -> bytes:
    return _tagged(type(value), *map(_encoded, value))


@_encoded.register(frozenset)
@_encoded.register(set)
def _set(value: Iterable[object]) -> bytes:
    return _tagged(frozenset, *sorted(map(_encoded, value)))


@_encoded.register
def _(value: Mapping) -> bytes:  # type: ignore[type-arg]
    return _tagged(dict, *sorted(_encoded(item) for item in value.items()))


@_encoded.register
def _(value: msgspec.Struct) -> bytes:
    return _named_fields(value, value.__struct_fields__, _stored_names(type(value)))


@memoized_by_identity(_MEMO_SIZE)
def _digest_of_dataclass(value: Any) -> bytes:
    """The digest of a frozen dataclass. It is memoized; otherwise a plan node would be encoded once for each node above
    it.
    """
    if not value.__dataclass_params__.frozen:
        raise TypeError(f"{type(value).__qualname__} is not frozen, so it has no fingerprint")
    listed = [field for field in fields(value) if field.compare and not _is_left_out(field, value)]
    encoded = _named_fields(value, [field.name for field in listed])
    return hashlib.sha256(encoded).digest()


def _is_left_out(field: Field[Any], value: object) -> bool:
    """Whether a field was added to its class later and has its default value. Such a field is left out, so older plans
    keep their names.
    """
    return ADDED_LATER in field.metadata and getattr(value, field.name) == field.default


@_encoded.register
def _(value: Source) -> bytes:
    """The source as it was registered, because later changes of its topic do not change what is computed from it.
    Fields in `added_later` are left out while they are None.
    """
    value = msgspec.structs.replace(value, partitions=value.partitions - len(value.added_partitions))
    named = (name for name in value.__struct_fields__ if name not in _TOPIC_FIELDS)
    later = value.added_later
    present = [name for name in named if name not in later or getattr(value, name) is not None]
    return _named_fields(value, present, _stored_names(Source))


@cache
def _stored_names(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """The names under which the fields of a struct are stored. They stay the same when a field is renamed."""
    return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))


def _named_fields(value: object, names: Iterable[str], stored: Mapping[str, str] = MappingProxyType({})) -> bytes:
    version = value.operator_version if hasattr(type(value), "operator_version") else None  # type: ignore[attr-defined]
    content = [_text(stored.get(name, name)) + _encoded(getattr(value, name)) for name in names]
    return _tagged(type(value), _encoded(version), *content)


def _tagged(kind: type, *parts: bytes) -> bytes:
    """The name of the type and the parts, each prefixed by its length; different lists give different bytes."""
    return b"".join(map(_with_length, (kind.__name__.encode(), *parts)))


def _with_length(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part
