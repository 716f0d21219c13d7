"""The formats of records. A new format is a file with its decoder, encoder and codec, and an entry in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.formats import (
    OPERATION,
    AvroDecoder,
    AvroEncoder,
    CsvDecoder,
    DebeziumAvroDecoder,
    DebeziumAvroKeyDecoder,
    DebeziumDecoder,
    DebeziumKeyDecoder,
    Decoder,
    Encoder,
    JsonDecoder,
    JsonEncoder,
    JsonSchemaDecoder,
    avro_schema,
)
from connectors.formats.avro_codec import AvroCodec
from connectors.formats.record_codec import JsonCodec, RecordCodec, RegisteredSchemas

#: Returns the writer schema of a schema id. Raises LookupError for an unknown one.
WriterSchema = Callable[[int], Mapping[str, object]]
#: Returns the schema document of columns under a name.
MakeSchema = Callable[[pa.Schema, str], dict[str, Any]]


@dataclass(frozen=True)
class RecordFormat:
    """Decodes and encodes records in one format.

    `decoder` and `encoder` create objects for batches: a decoder from the declared columns and the writer schemas, an
    encoder from the columns and, in a format with schemas, the id of the registered schema. `codec` creates a codec for
    single rows of a topic, from the schemas of a registry. `schema` returns the schema to register for columns under a
    name; it is None in a format without schemas.

    A format that only sources can have lacks `encoder` and `codec`. `keys` creates a decoder for the keys of
    tombstones, if keys are encoded differently from values; in a format that is not `keyed`, such keys are ignored.
    `operation` names the column into which the decoder writes the operation of a record. `awaits_schemas` is true if a
    record cannot be decoded before the schema with its id is known.
    """

    decoder: Callable[[pa.Schema, WriterSchema], Decoder]
    encoder: Callable[[pa.Schema, int | None], Encoder] | None = None
    codec: Callable[[RegisteredSchemas, str], RecordCodec] | None = None
    schema: MakeSchema | None = None
    keys: Callable[[pa.Schema, WriterSchema], Decoder] | None = None
    keyed: bool = True
    operation: str | None = None
    awaits_schemas: bool = False

    def encoder_of(self, schema: pa.Schema, schema_id: int | None) -> Encoder:
        """The encoder. The format must be one of `RESULT_FORMATS`."""
        assert self.encoder is not None
        return self.encoder(schema, schema_id)

    def codec_of(self, schemas: RegisteredSchemas, topic: str) -> RecordCodec:
        """The codec. The format must be one of `RESULT_FORMATS`."""
        assert self.codec is not None
        return self.codec(schemas, topic)

    def decoder_of_written(self, schema: pa.Schema) -> Decoder:
        """A decoder of records that `encoder` wrote.

        >>> import polars as pl
        >>> columns, avro = pa.schema([("a", pa.int64())]), FORMATS["avro"]
        >>> values = avro.encoder_of(columns, 7).encode(pl.DataFrame({"a": [1]})).to_list()
        >>> avro.decoder_of_written(columns).decode(values).frame.rows()
        [(1,)]
        """
        return self.decoder(schema, lambda _: self.schema(schema, "row") if self.schema else {})


def _avro_encoder(schema: pa.Schema, schema_id: int | None) -> AvroEncoder:
    assert schema_id is not None, "Avro records need the id of a registered schema"
    return AvroEncoder(schema, schema_id)


def _protobuf_decoder(schema: pa.Schema, writer: WriterSchema) -> Decoder:
    from connectors.formats.protobuf_decode import ProtobufDecoder  # few sources need its library

    return ProtobufDecoder(schema, writer)


#: The formats by the names that FORMAT accepts, the default first.
FORMATS: dict[str, RecordFormat] = {
    "json": RecordFormat(
        lambda schema, _: JsonDecoder(schema), lambda schema, _: JsonEncoder(schema), lambda *_: JsonCodec()
    ),
    "avro": RecordFormat(AvroDecoder, _avro_encoder, AvroCodec, avro_schema, awaits_schemas=True),
    "debezium": RecordFormat(
        lambda schema, _: DebeziumDecoder(schema),
        keys=lambda schema, _: DebeziumKeyDecoder(schema),
        operation=OPERATION,
    ),
    "debezium_avro": RecordFormat(
        DebeziumAvroDecoder, keys=DebeziumAvroKeyDecoder, operation=OPERATION, awaits_schemas=True
    ),
    "json_schema": RecordFormat(lambda schema, _: JsonSchemaDecoder(schema)),
    "protobuf": RecordFormat(_protobuf_decoder, awaits_schemas=True),
    "csv": RecordFormat(lambda schema, _: CsvDecoder(schema), keyed=False),
}
#: The formats in which results can be written.
RESULT_FORMATS = [name for name, form in FORMATS.items() if form.encoder is not None]
