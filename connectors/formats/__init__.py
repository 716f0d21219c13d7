"""Record formats: decoders turn bytes into columns, encoders turn columns into bytes."""

from connectors.formats.avro_decode import AvroDecoder
from connectors.formats.avro_encode import AvroEncoder
from connectors.formats.avro_schema import avro_schema
from connectors.formats.base import Decoded, Decoder, Encoder, ListsFields, Refusal
from connectors.formats.csv_decode import CsvDecoder
from connectors.formats.debezium_avro_decode import DebeziumAvroDecoder, DebeziumAvroKeyDecoder
from connectors.formats.debezium_decode import OPERATION, DebeziumDecoder, DebeziumKeyDecoder
from connectors.formats.json_decode import JsonDecoder
from connectors.formats.json_encode import JsonEncoder
from connectors.formats.json_schema_decode import JsonSchemaDecoder
from connectors.formats.row_decode import RowDecoder

__all__ = [
    "OPERATION",
    "AvroDecoder",
    "AvroEncoder",
    "CsvDecoder",
    "DebeziumAvroDecoder",
    "DebeziumAvroKeyDecoder",
    "DebeziumDecoder",
    "DebeziumKeyDecoder",
    "Decoded",
    "Decoder",
    "Encoder",
    "JsonDecoder",
    "JsonEncoder",
    "JsonSchemaDecoder",
    "ListsFields",
    "Refusal",
    "RowDecoder",
    "avro_schema",
]
