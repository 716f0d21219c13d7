"""JSON records: one object a value."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from connectors.formats.base import Decoded, Refusal, Unfit, decoded
from connectors.formats.row_decode import row_values
from connectors.formats.values import check_field


class JsonDecoder:
    """Decodes JSON objects into the declared columns: exact types, unknown keys ignored, a missing key is NULL."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._checks = [(field.name, check_field(field)) for field in schema]

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """The rows of the values, and a refusal for each value that is none."""
        rows: list[list[object]] = []
        kept: list[int] = []
        refused: list[Refusal] = []
        for index, value in enumerate(values):
            try:
                rows.append(row_values(self._checks, msgspec.json.decode(value)))
                kept.append(index)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                refused.append(Refusal(index, f"not JSON: {error}"))
            except Unfit as unfit:
                refused.append(Refusal(index, str(unfit)))
        return decoded(self._schema, rows, kept, refused)
