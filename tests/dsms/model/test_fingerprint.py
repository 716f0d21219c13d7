"""Identity: equal values have the same fingerprint, unequal values have different ones, and the vertices of a dataflow
have different state keys."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.model import logical, objects
from dsms.model.fingerprint import fingerprint
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from operators.expressions import Column, Literal
from tests.support.fake_environment import FakeEnvironment, apply_all

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.binary(max_size=4), st.decimals()
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def exact(value: object) -> object:
    """A value with the types of all its parts, which is the oracle for equality."""
    parts = tuple(map(exact, value)) if isinstance(value, tuple) else repr(value)
    return type(value).__name__, parts


@given(VALUES, VALUES)
def test_fingerprints_are_equal_if_and_only_if_values_are(left, other) -> None:
    assert (fingerprint(left) == fingerprint(other)) == (exact(left) == exact(other))


@given(st.lists(st.integers(0, 40), unique=True), st.randoms())
def test_the_order_of_sets_and_mappings_does_not_matter(numbers, random) -> None:
    shuffled = random.sample(numbers, len(numbers))
    assert fingerprint(frozenset(numbers)) == fingerprint(frozenset(shuffled))
    assert fingerprint(dict.fromkeys(numbers, "x")) == fingerprint(dict.fromkeys(shuffled, "x"))


def test_types_nullability_and_scale_count() -> None:
    columns = [
        Column("a", pa.int32()),
        Column("a", pa.int64()),
        Column("a", pa.int64(), nullable=False),
        Column("a", pa.decimal128(9, 2)),
        Column("a", pa.decimal128(9, 3)),
        Column("a", pa.timestamp("us")),
        Column("a", pa.timestamp("us", "UTC")),
        Column("a", pa.list_(pa.int64())),
        Literal(1, pa.int64()),
        Literal(True, pa.int64()),
        Literal(0.0, pa.float64()),
        Literal(-0.0, pa.float64()),
        Literal(Decimal("1.0"), pa.decimal128(9, 2)),
        Literal(Decimal("1.00"), pa.decimal128(9, 2)),
    ]
    assert len({fingerprint(column) for column in columns}) == len(columns)


@dataclass(frozen=True)
class Operator:
    """An operator with a version."""

    name: str
    members: tuple[int, ...] = field(default=(), compare=False)


def test_operator_versions_count_and_fields_without_comparison_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    first = fingerprint(Operator("a"))
    assert fingerprint(Operator("a", (1,))) == first != fingerprint(Operator("b"))
    monkeypatch.setattr(Operator, "operator_version", 2, raising=False)
    assert fingerprint(Operator("a")) != first


def test_mutable_values_have_no_fingerprint() -> None:
    @dataclass
    class Changing:
        name: str

    with pytest.raises(TypeError, match="Changing is not frozen"):
        fingerprint(Changing("a"))
    with pytest.raises(TypeError, match="type object has no fingerprint"):
        fingerprint((object(),))


def test_fingerprints_are_the_same_in_every_process() -> None:
    value = (frozenset({"a", "b", "c", "d"}), Column("x", pa.int64()), {"p": 1.5, "q": None})
    program = (
        "import pyarrow as pa; from operators.expressions import Column; "
        "from dsms.model.fingerprint import fingerprint; "
        "print(fingerprint((frozenset({'d', 'c', 'b', 'a'}), Column('x', pa.int64()), {'q': None, 'p': 1.5})))"
    )
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
        assert done.stdout.decode().strip() == fingerprint(value)


def test_twins_over_the_same_sources_are_one_vertex() -> None:
    """The `repr` of a set depends on the order of insertion: {0, 8} and {8, 0} are equal, but print differently."""
    sources = "".join(
        f"REGISTER SOURCE T{at} (k VARCHAR NOT NULL, v{at} BIGINT) FROM t{at}; CREATE STREAM S{at} OVER T{at} KEY k;"
        for at in range(9)
    )
    views = (
        "CREATE STREAMED VIEW A AS SELECT v0, v8 FROM S0 LEFT JOIN S8 ON v0 = v8;"
        "CREATE STREAMED VIEW B AS SELECT v0, v8 FROM S8 LEFT JOIN S0 ON v0 = v8;"
    )
    catalog = apply_all(sources + views, environment=FakeEnvironment({f"t{at}": {0: 0} for at in range(9)}))[0]
    flow = compile_lane("lane", plan_fragment(catalog, 1).queries.values()).flow
    assert len(set(flow.keys)) == len(flow.vertices)


def test_fields_that_were_added_later_leave_stored_names_as_they_were() -> None:
    """The literal is the fingerprint as of commit 8ccdbb9, before these fields were added."""
    source = objects.Source(name="T", id="o1", sql="", columns=(objects.Column("k", "INT"),), topic="t")
    scan = logical.StreamScan(source, "S", ("k",))
    assert fingerprint(scan) == "95e6e4235efca3536c13"
    told = msgspec.structs.replace(source, own_dead_letter_topic="elsewhere")
    others = (replace(scan, first=((0, 9),)), logical.StreamScan(told, "S", ("k",)))
    assert len({fingerprint(scan), *map(fingerprint, others)}) == 3


def test_a_renamed_field_keeps_the_name_under_which_it_is_stored() -> None:
    """The literal is the fingerprint as of commit 933edd21, in which the field had its stored name, `letters`."""
    column = objects.Column("k", "INT")
    source = objects.Source(name="T", id="o1", sql="", columns=(column,), topic="t", own_dead_letter_topic="elsewhere")
    assert fingerprint(logical.StreamScan(source, "S", ("k",))) == "414864f1794af4164bc2"
    assert b'"letters":"elsewhere"' in msgspec.json.encode(source)
