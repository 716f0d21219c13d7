"""Lines of JSON as records."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from connectors.formats.avro_codec import avro_natural
from connectors.formats.record_codec import JsonCodec
from connectors.kafka.records.publish import Outgoing
from connectors.kafka.records.record_lines import LineFormat
from operators.core.errors import UserError

PLAIN = LineFormat(JsonCodec())
KEYED = LineFormat(JsonCodec(), key=["k"])


@pytest.mark.parametrize(
    ("lines", "line", "record"),
    [
        (PLAIN, '{"a": 1}', Outgoing(None, b'{"a":1}')),
        (PLAIN, '{"a": 1, "ts": 5, "op": "+"}', Outgoing(None, b'{"a":1}', None, 5)),
        (KEYED, '{"k": 1, "v": 2, "op": "u", "ts": -3}', Outgoing(b'{"k":1}', b'{"k":1,"v":2}', "u", -3)),
        (KEYED, '{"k": 1, "op": "-"}', Outgoing(b'{"k":1}', None, "-")),
        (KEYED, '{"k": 1, "v": 2, "op": "-"}', Outgoing(b'{"k":1}', b'{"k":1,"v":2}', "-")),
        (LineFormat(JsonCodec(), columns=frozenset({"ts"})), '{"ts": 5}', Outgoing(None, b'{"ts":5}')),
    ],
)
def test_lines(lines, line, record):
    assert lines.outgoing(line) == record


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", r"not a JSON object: \[1\]"),
        ('{"k": 1, "ts": "5"}', 'field "ts" is "5"; an instant is a whole number'),
        ('{"k": 1, "ts": true}', 'field "ts" is true'),
        ('{"k": 1, "ts": 4611686018427387904}', "instants lie within ±4611686018427387903"),
        ('{"k": 1, "ts": -1e30}', r'field "ts" is -1e\+30; an instant is a whole number'),
        ('{"k": 1, "op": "x"}', r'field "op" is "x"; have: \+, u, -'),
        ('{"v": 1}', 'key column "k" is missing'),
    ],
)
def test_wrong_lines(line, message):
    with pytest.raises(UserError, match=message):
        KEYED.outgoing(line)


def test_values_as_avro_wants_them():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "raw", "type": {"type": "array", "items": "bytes"}},
            {"name": "n", "type": "long"},
        ],
    }
    row = json.loads('{"at": "2024-05-01T00:00:00Z", "price": "1.50", "raw": ["eA=="], "n": 1}')
    assert avro_natural(row, schema) == {
        "at": datetime(2024, 5, 1, tzinfo=UTC),
        "price": Decimal("1.50"),
        "raw": [b"x"],
        "n": 1,
    }
    with pytest.raises(ValueError, match='column "x" not found; have: at, price, raw, n'):
        avro_natural({"x": 1}, schema)
