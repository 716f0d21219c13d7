"""Types whose values Arrow and Polars store as those of another type; only schemas distinguish the two."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa


class DistinctType(pa.ExtensionType):
    """A type whose values are stored as those of another type: an extension type of Arrow, but hashable.

    Frames hold the stored values; only schemas distinguish the types.

    >>> colour = DistinctType("COLOUR", pa.string())
    >>> colour == pa.string(), colour == DistinctType("COLOUR", pa.string()), colour.storage_type
    (False, True, DataType(string))
    """

    def __init__(self, name: str, storage: pa.DataType) -> None:
        self._name = name
        super().__init__(storage, f"dsms.{name.lower()}")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._name.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> DistinctType:
        return cls(serialized.decode(), storage_type)

    def __hash__(self) -> int:
        return hash((self.extension_name, self.storage_type))

    def __str__(self) -> str:
        return self._name.lower()


def stored(type_: pa.DataType) -> pa.DataType:
    """Returns the Arrow type in which frames and records store the values of a type, also within arrays and structs.

    >>> stored(pa.list_(DistinctType("COLOUR", pa.string())))
    ListType(list<item: string>)
    """
    if isinstance(type_, DistinctType):
        return type_.storage_type
    if pa.types.is_list(type_):
        element = type_.value_field
        return pa.list_(element.with_type(stored(element.type)))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(stored(field.type)) for field in type_])
    return type_


@lru_cache(maxsize=1024)
def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema in which frames store the columns of a schema.

    >>> stored_schema(pa.schema([("c", DistinctType("COLOUR", pa.string()))])).types
    [DataType(string)]
    """
    return pa.schema([field.with_type(stored(field.type)) for field in schema])
