"""Translates the semantic type names of Kafka Connect and Debezium into Avro's logical types."""

from __future__ import annotations

from collections.abc import Mapping

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
#: A decimal whose scale is written with each value: a record of `scale` and `value`.
VARIABLE_DECIMAL = "variable-scale-decimal"
#: Logical types of times and dates that are written as text.
ISO_TIMESTAMPS, ISO_DATE = frozenset({"zoned-timestamp", "iso-timestamp"}), "iso-date"

_LOGICAL: Mapping[str, str] = {
    f"{_CONNECT}Date": "date",
    f"{_CONNECT}Time": "time-millis",
    f"{_CONNECT}Timestamp": "timestamp-millis",
    f"{_CONNECT}Decimal": "decimal",
    f"{_DEBEZIUM}time.Date": "date",
    f"{_DEBEZIUM}time.Time": "time-millis",
    f"{_DEBEZIUM}time.MicroTime": "time-micros",
    f"{_DEBEZIUM}time.NanoTime": "time-nanos",
    f"{_DEBEZIUM}time.Timestamp": "timestamp-millis",
    f"{_DEBEZIUM}time.MicroTimestamp": "timestamp-micros",
    f"{_DEBEZIUM}time.NanoTimestamp": "timestamp-nanos",
    f"{_DEBEZIUM}time.ZonedTimestamp": "zoned-timestamp",
    f"{_DEBEZIUM}time.IsoTimestamp": "iso-timestamp",
    f"{_DEBEZIUM}time.IsoDate": ISO_DATE,
    f"{_DEBEZIUM}data.VariableScaleDecimal": VARIABLE_DECIMAL,
}


def logical_of(name: object) -> str:
    """The logical type for the name of a semantic type of Connect.

    Debezium's other types of times, such as Year, keep their names: a reader recognises them, and refuses to read them
    as DATE or TIMESTAMP.
    The result is "" for names that concern neither times nor decimals.

    >>> logical_of("io.debezium.time.MicroTimestamp"), logical_of("io.debezium.time.Year"), logical_of("shop.Row")
    ('timestamp-micros', 'io.debezium.time.Year', '')
    """
    if not isinstance(name, str):
        return ""
    return _LOGICAL.get(name, name if name.startswith(f"{_DEBEZIUM}time.") else "")


def scale_of(parameters: object) -> int:
    """The scale of a decimal: the parameter "scale" of its Connect schema, usually as text. It is 0 if `parameters` has
    no valid scale.

    >>> scale_of({"scale": "2"}), scale_of(None)
    (2, 0)
    """
    scale = parameters.get("scale") if isinstance(parameters, Mapping) else None
    return int(scale) if isinstance(scale, int | str) and str(scale).removeprefix("-").isdecimal() else 0
