"""The schema ids in the wire format, compared with `int.from_bytes`, and the first record whose schema is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.formats.binary_column import BinaryColumn
from dsms.runtime.stages.awaited_schemas import first_awaited

_BODIES = st.lists(st.one_of(st.binary(max_size=9), st.binary(min_size=4, max_size=8).map(lambda rest: b"\0" + rest)))


@given(bodies=_BODIES, known=st.frozensets(st.integers(0, 2**32 - 1)), cut=st.integers(0, 5))
def test_the_first_body_whose_schema_is_missing_is_found(bodies: list[bytes], known: frozenset[int], cut: int) -> None:
    def writer(schema_id: int) -> object:
        if schema_id not in known:
            raise LookupError
        return schema_id

    ids = [int.from_bytes(body[1:5], "big") if len(body) >= 5 and body[0] == 0 else None for body in bodies]
    missing = [(at, number) for at, number in enumerate(ids) if number is not None and number not in known]
    wanted = next(((at, f"schema {number}: it is not in the registry") for at, number in missing), None)
    assert first_awaited(bodies, writer) == wanted
    first = next(
        ((at - cut, f"schema {number}: it is not in the registry") for at, number in missing if at >= cut), None
    )
    assert first_awaited(BinaryColumn.of(bodies)[cut:], writer) == first
