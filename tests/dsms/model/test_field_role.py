"""Each field of a query states its role, and the lists of fields that follow from the roles."""

from __future__ import annotations

import msgspec

from dsms.model.field_role import defaults_of, names_of, roles_of
from dsms.model.objects import Former, Query


def test_each_field_of_a_query_states_its_role_once() -> None:
    stated = list(roles_of(Query))
    assert stated == list(Query.__struct_fields__), "give a new field a FieldRole in its type"


def test_a_former_version_keeps_the_fields_that_say_so() -> None:
    kept = set(names_of(Query, lambda role: role.in_former))
    assert {*kept, "objects", "sheddable", "memory", "merged"} == set(Former.__struct_fields__)


def test_what_a_replacement_keeps() -> None:
    roles = roles_of(Query)
    assert names_of(Query, lambda role: role.on_replacement == "fixed") == ("topic", "format", "partitions")
    for name in ("topic_id", "marked_by", "weight", "state_memory", "shared", "paused", "fragment", "first_offsets"):
        assert roles[name].on_replacement == "carried", name
    for name in ("select", "output", "max_error", "join_orders", "reads", "fills", "shares", "owner"):
        assert roles[name].on_replacement == "restated", name


def test_what_makes_a_replacement_differ() -> None:
    roles = roles_of(Query)
    for name in ("select", "output", "start", "weight", "state_memory", "shared", "max_error", "deadline", "memory"):
        assert roles[name].compared, name
    for name in ("name", "sql", "topic", "paused", "fragment", "first_offsets", "sketch_error"):
        assert not roles[name].compared, name


def test_what_is_reset() -> None:
    on_replacement = defaults_of(Query, lambda role: role.on_replacement == "reset")
    shared = {
        "family": None,
        "constants": None,
        "grouped": False,
        "match_digests": (),
        "over": (),
        "halted": False,
        "next_over": None,
        "former_fragment": None,
        "links": (),
        "operators": (),
        "shared_links": (),
    }
    assert on_replacement == {**shared, "since": None, "former": None, "earlier": (), "next_over": None}
    orders = {"join_orders": (), "next_join_orders": None, "next_over": None}
    assert defaults_of(Query, lambda role: role.reset_on_division) == {**shared, "shares": (), **orders}


#: The beginning of a stored query with all fields of version 0.1; new fields follow.
STORED = (
    b'{"type":"query","name":"a","id":"o1","sql":"","kind":"view","select":"s","topic":"t","topic_id":null'
    b',"marked_by":null,"format":"json","partitions":1,"key_schema_id":null,"value_schema_id":null'
    b',"output":"streamed","periodic":null,"stream":false,"shared":true,"family":null,"constants":null'
    b',"grouped":false,"fragment":"0","shares":[],"divided":0,"fragments_by_load":false,"reads":[],"marks":[]'
    b',"over":[],"weight":1.0,"state_memory":null,"paused":false,"halted":false,"start":null,"first_offsets":{}'
    b',"since":null,"max_error":null,"deadline":null,"error_columns":false,"shed_where":null,"memory":null'
    b',"sketch_error":null,"former":null,"lasting":false,"fills":null,"join_orders":[],"next_join_orders":null'
    b',"orders_by_statistics":true,"owner":"","fields_named":false,"streams_united":false'
)


def test_the_stored_form_of_a_query_is_unchanged() -> None:
    query = Query(name="a", id="o1", sql="", kind="view", select="s", topic="t")
    assert msgspec.json.encode(query).startswith(STORED)
    assert msgspec.json.decode(STORED + b"}", type=Query) == query
