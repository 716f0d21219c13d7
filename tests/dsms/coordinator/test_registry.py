"""The schema registry's decisions and its log; fastavro is the oracle for compatibility."""

import io
import json

import fastavro
import pytest
from fastavro.schema import SchemaParseException
from hypothesis import given
from hypothesis import strategies as st

from dsms.coordinator.registry.avro_compatibility import unreadable
from dsms.coordinator.registry.subjects import RegistryError, SchemaRegistry


def record(*fields):
    return json.dumps({"type": "record", "name": "r", "fields": list(fields)})


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
B_DEFAULT = {**B, "default": "x"}


def test_equal_schemas_have_one_id():
    registry = SchemaRegistry()
    assert registry.register("s", record(A)) == 1
    assert registry.register("s", json.dumps(json.loads(record(A)), indent=4)) == 1
    assert registry.register("t", record(A)) == 1
    assert registry.register("t", record(A, B_DEFAULT)) == 2
    assert registry.versions("s") == [1]
    assert registry.versions("t") == [1, 2]
    assert registry.uses(1) == [("s", 1), ("t", 1)]


@pytest.mark.parametrize(
    ("level", "first", "second", "allowed"),
    [
        ("BACKWARD", record(A), record(A, B_DEFAULT), True),
        ("BACKWARD", record(A), record(A, B), False),
        ("BACKWARD", record(A, B), record(A), True),
        ("FORWARD", record(A), record(A, B), True),
        ("FORWARD", record(A, B), record(A), False),
        ("FORWARD", record(A, B_DEFAULT), record(A), True),
        ("FULL", record(A), record(A, B_DEFAULT), True),
        ("FULL", record(A), record(A, B), False),
        ("FULL", record(A, B), record(A), False),
        ("NONE", record(A), '"string"', True),
    ],
)
def test_levels(level, first, second, allowed):
    registry = SchemaRegistry()
    registry.set_compatibility(level)
    registry.register("s", first)
    if allowed:
        assert registry.register("s", second) == 2
    else:
        with pytest.raises(RegistryError) as refused:
            registry.register("s", second)
        assert refused.value.status == 409
    assert (registry.check("s", second) == []) is allowed


def test_transitive_looks_at_every_version():
    registry = SchemaRegistry()
    registry.set_compatibility("none", "s")
    registry.register("s", '"string"')
    registry.register("s", '"int"')
    registry.set_compatibility("BACKWARD", "s")
    assert registry.check("s", '"long"') == []
    registry.set_compatibility("BACKWARD_TRANSITIVE", "s")
    assert len(registry.check("s", '"long"')) == 1


def test_levels_of_subjects():
    registry = SchemaRegistry()
    assert (registry.compatibility(), registry.compatibility("s")) == ("BACKWARD", None)
    registry.set_compatibility("FULL", "s")
    assert (registry.compatibility(), registry.compatibility("s")) == ("BACKWARD", "FULL")
    assert registry.reset_compatibility("s") == "FULL"
    assert registry.compatibility("s") is None
    with pytest.raises(RegistryError, match='"SIDEWAYS" unknown; have: NONE, BACKWARD'):
        registry.set_compatibility("SIDEWAYS")


def test_soft_then_permanent_deletion():
    registry = SchemaRegistry()
    registry.register("s", record(A))
    registry.register("s", record(A, B_DEFAULT))
    with pytest.raises(RegistryError) as early:
        registry.delete_version("s", 1, permanent=True)
    assert early.value.code == 40407
    assert registry.delete_version("s", 1) == 1
    assert (registry.versions("s"), registry.versions("s", deleted=True)) == ([2], [1, 2])
    assert registry.delete_subject("s") == [2]
    assert (registry.subjects(), registry.subjects(deleted=True)) == ([], ["s"])
    assert registry.delete_subject("s", permanent=True) == [1, 2]
    assert registry.subjects(deleted=True) == []
    assert json.loads(registry.by_id(1)) == json.loads(record(A))


def test_registering_a_deleted_schema_again_keeps_the_id_and_takes_a_new_version():
    registry = SchemaRegistry()
    registry.register("s", record(A))
    registry.delete_subject("s")
    assert registry.register("s", record(A)) == 1
    assert registry.versions("s") == [2]


def test_ids_of_deleted_schemas_are_not_reused():
    registry = SchemaRegistry()
    registry.register("s", '"int"')
    registry.delete_subject("s")
    registry.delete_subject("s", permanent=True)
    assert registry.register("s", '"string"') == 2


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda r: r.version("x", 1), 40401),
        (lambda r: r.versions("x"), 40401),
        (lambda r: r.version("s", 9), 40402),
        (lambda r: r.version("s", "zero"), 42202),
        (lambda r: r.version("s", 0), 42202),
        (lambda r: r.by_id(9), 40403),
        (lambda r: r.lookup("s", '"string"'), 40403),
        (lambda r: r.lookup("x", '"string"'), 40401),
        (lambda r: r.register("s", "{not json"), 42201),
        (lambda r: r.register("s", '{"type": "record", "name": "r"}'), 42201),
        (lambda r: r.reset_compatibility("s"), 40408),
    ],
)
def test_refusals(call, code):
    registry = SchemaRegistry()
    registry.register("s", '"int"')
    with pytest.raises(RegistryError) as refused:
        call(registry)
    assert refused.value.code == code


@pytest.mark.parametrize("text", ["{not json", 'syntax = "proto3"; message A {}', "[" + "1" * 5_000 + "]"])
def test_a_text_that_is_not_json_is_not_called_avro(text):
    with pytest.raises(RegistryError, match="the schema cannot be read as JSON: .*; send an Avro schema as JSON"):
        SchemaRegistry().register("s", text)


def test_a_failing_log_changes_nothing():
    def fail(event):
        raise ConnectionError("no broker")

    registry = SchemaRegistry(fail)
    with pytest.raises(ConnectionError):
        registry.register("s", '"int"')
    assert registry.subjects() == []


calls = st.one_of(
    st.tuples(st.just("register"), st.sampled_from("st"), st.sampled_from([record(A), record(A, B_DEFAULT), '"int"'])),
    st.tuples(st.just("delete_subject"), st.sampled_from("st"), st.booleans()),
    st.tuples(st.just("delete_version"), st.sampled_from("st"), st.booleans()),
    st.tuples(st.just("level"), st.sampled_from("st"), st.sampled_from(["NONE", "FULL", "BACKWARD"])),
)


def perform(registry, call):
    verb, subject, argument = call
    try:
        if verb == "register":
            registry.register(subject, argument)
        elif verb == "delete_subject":
            registry.delete_subject(subject, permanent=argument)
        elif verb == "delete_version":
            registry.delete_version(subject, "latest", permanent=argument)
        else:
            registry.set_compatibility(argument, subject)
    except RegistryError:
        pass


@given(st.lists(calls, max_size=12), st.data())
def test_replayed_log_gives_the_same_registry_state(history, data):
    events = []
    registry = SchemaRegistry(events.append)
    for call in history:
        perform(registry, call)
    replayed = SchemaRegistry()
    for event in json.loads(json.dumps(events)):
        replayed.apply(event)
    assert replayed.state == registry.state
    if events:
        replayed.apply(json.loads(json.dumps(events[-1])))
        assert replayed.state == registry.state


PRIMITIVES = ["int", "long", "float", "double", "string", "bytes", "boolean", "null"]
VALUES = {
    "int": 1,
    "long": 2,
    "float": 0.5,
    "double": 0.25,
    "string": "x",
    "bytes": b"y",
    "boolean": True,
    "null": None,
}
field_types = st.one_of(
    st.sampled_from(PRIMITIVES), st.sampled_from(PRIMITIVES).map(lambda t: {"type": "array", "items": t})
)


def example_of(field_type):
    return VALUES[field_type] if isinstance(field_type, str) else [VALUES[field_type["items"]]]


@given(st.dictionaries(st.sampled_from("abc"), field_types), st.dictionaries(st.sampled_from("abc"), field_types))
def test_readable_is_what_fastavro_reads(written, read):
    writer = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in written.items()]}
    reader = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in read.items()]}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, writer, {n: example_of(t) for n, t in written.items()})
    buffer.seek(0)
    try:
        fastavro.schemaless_reader(buffer, writer, reader)
        readable = True
    except (fastavro.read.SchemaResolutionError, SchemaParseException):
        readable = False
    assert (unreadable(json.dumps(reader), json.dumps(writer)) == []) is readable
