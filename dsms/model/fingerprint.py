"""Fingerprints name plans and operators: equal values have the same name, in every process and at any time.

These names identify shared operators and their state. `repr` is not suitable: equal sets may print in different orders,
and it stays the same when the meaning of a class changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
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
_LEFT_OUT = (*_TOPIC_FIELDS, "registered", "earlier", "earlier_ids", "dropped")
#: How many fingerprints of plans are memoized.
_MEMO_SIZE = 1 << 14


def fingerprint(value: object) -> str:
    """Twenty hexadecimal digits, equal for two values if and only if they have the same type and content.

    It does not depend on the order of a set or mapping, on the process, or on the module that defines a class. Fields
    excluded from comparison are left out, and so are fields marked `ADDED_LATER` that have their default value. The
    `operator_version` of an operator is included. Renaming an object changes no fingerprint: a value that has the
    property `as_created` is taken as that.

    Raises TypeError for a mutable value (a dataclass that is not frozen) and for a type with no known encoding.

    >>> fingerprint(frozenset({0, 8})) == fingerprint(frozenset({8, 0}))
    True
    >>> len({fingerprint(value) for value in (1, 1.0, True, "1", b"1", None, (1,), [1], ((1,),))})
    9
    """
    return hashlib.sha256(_encoded(value)).hexdigest()[:_HEX_DIGITS]


def _encoded(value: object) -> bytes:
    """An injective encoding of a value: a tag for its type, then its content."""
    return _encoder(type(value))(value)  # type: ignore[arg-type] # mypy takes some types for unhashable


@lru_cache(_MEMO_SIZE)
def _encoder(kind: type) -> Callable[[Any], bytes]:
    """The encoder of a type, since `singledispatch` takes longer to find it than most encoders take."""
    return _encoding.dispatch(kind)


@singledispatch
def _encoding(value: Any) -> bytes:
    if is_dataclass(value) and not isinstance(value, type):
        return _digest_of_dataclass(value)
    raise TypeError(f"a value of type {type(value).__qualname__} has no fingerprint")


@_encoding.register(float)
@_encoding.register(Decimal)
@_encoding.register(date)
@_encoding.register(datetime)
@_encoding.register(time)
@_encoding.register(timedelta)
def _scalar(value: object) -> bytes:
    return _tagged(type(value), repr(value).encode())


@_encoding.register(type(None))
@_encoding.register(bool)
@_encoding.register(int)
@_encoding.register(str)
@lru_cache(_MEMO_SIZE, typed=True)
def _common(value: bool | int | str | None) -> bytes:
    """Values of these types are equal only if they are written alike, unlike 0.0 and -0.0."""
    return _scalar(value)


@_encoding.register
def _(value: bytes) -> bytes:
    return _tagged(bytes, value)


@_encoding.register
def _(value: pa.DataType) -> bytes:
    return _tagged(pa.DataType, str(value).encode())


@_encoding.register
def _(value: pa.Field) -> bytes:  # type: ignore[type-arg]
    return _tagged(pa.Field, *map(_encoded, (value.name, value.type, value.nullable)))


@_encoding.register
def _(value: pa.Schema) -> bytes:
    return _tagged(pa.Schema, *map(_encoded, value))


@_encoding.register(tuple)
@_encoding.register(list)
def _sequence(value: Iterable[object]) -> bytes:
    return _tagged(type(value), *map(_encoded, value))


@_encoding.register(frozenset)
@_encoding.register(set)
def _set(value: Iterable[object]) -> bytes:
    return _tagged(frozenset, *sorted(map(_encoded, value)))


@_encoding.register
def _(value: Mapping) -> bytes:  # type: ignore[type-arg]
    return _tagged(dict, *sorted(_encoded(item) for item in value.items()))


@_encoding.register
def _(value: msgspec.Struct) -> bytes:
    return _named_fields(value, value.__struct_fields__, _stored_names(type(value)))


@memoized_by_identity(_MEMO_SIZE)
def _digest_of_dataclass(value: Any) -> bytes:
    """The digest of a frozen dataclass. It is memoized; otherwise a plan node would be encoded once for each node above
    it.
    """
    if not value.__dataclass_params__.frozen:
        raise TypeError(f"{type(value).__qualname__} is not frozen, so it has no fingerprint")
    value = getattr(value, "as_created", value)
    compared, later = _compared(type(value))  # type: ignore[arg-type] # as above
    names = (name for name in compared if name not in later or getattr(value, name) != later[name])
    return hashlib.sha256(_named_fields(value, names)).digest()


@lru_cache(_MEMO_SIZE)
def _compared(kind: type) -> tuple[list[str], dict[str, object]]:
    """The names of the fields that are compared, and the defaults of those that were added to the class later. Such a
    field is left out where it has its default value, so older plans keep their names.
    """
    compared = [field for field in fields(kind) if field.compare]
    return [field.name for field in compared], {
        field.name: field.default for field in compared if ADDED_LATER in field.metadata
    }


@_encoding.register(Source)
@memoized_by_identity(_MEMO_SIZE)
def _source(value: Source) -> bytes:
    """The source as it was registered, because later changes of its topic and new names do not change what is computed
    from it. Fields in `added_later` are left out while they are None.
    """
    value = msgspec.structs.replace(value.as_registered, partitions=value.partitions - len(value.added_partitions))
    named = (name for name in value.__struct_fields__ if name not in _LEFT_OUT)
    later = value.added_later
    present = [name for name in named if name not in later or getattr(value, name) is not None]
    return _named_fields(value, present, _stored_names(Source))


@cache
def _stored_names(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """The names under which the fields of a struct are stored. They stay the same when a field is renamed."""
    return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))


def _named_fields(value: object, names: Iterable[str], stored: Mapping[str, str] = MappingProxyType({})) -> bytes:
    version = value.operator_version if hasattr(type(value), "operator_version") else None  # type: ignore[attr-defined]
    content = [_common(stored.get(name, name)) + _encoded(getattr(value, name)) for name in names]
    return _tagged(type(value), _encoded(version), *content)


def _tagged(kind: type, *parts: bytes) -> bytes:
    """The name of the type and the parts, each prefixed by its length; different lists give different bytes."""
    return b"".join([len(part).to_bytes(4, "big") + part for part in (kind.__name__.encode(), *parts)])
