"""The functions of PostgreSQL that clients call in queries of the catalog, as macros of DuckDB."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from dsms.coordinator.postgres.catalog_rows import VIEW_INDEXES
from dsms.coordinator.postgres.catalog_types import format_type_sql
from dsms.coordinator.postgres.session_values import SHOWN
from operators.core.quoting import quoted_text

#: The relation with the texts of views, indexes and constraints, and that with the names of all objects; macros read
#: them.
DEFINITIONS: Final = "catalog definitions"
NAMES: Final = "catalog names"
#: The macros that return the OID of a named object of a kind (`regclass`, `regtype`, …), and the name of an OID.
OID_OF, NAME_OF = "oid_of_named", "name_of_oid"
_DEFINITION = f"""(SELECT definition FROM "{DEFINITIONS}" WHERE oid = {OID_OF}('regclass', a) AND part = 0)"""
_PART = f'(SELECT definition FROM "{DEFINITIONS}" WHERE oid = a AND part = b)'
_PLAIN: Final = """lower(replace(b::VARCHAR, '"', ''))"""
#: The OID of what `b` names; `b` may be an OID already.
_OID_OF: Final = (
    "CASE WHEN regexp_full_match(b::VARCHAR, '[0-9]+') THEN CAST(b::VARCHAR AS BIGINT)"
    f' ELSE (SELECT max(oid) FROM "{NAMES}" WHERE kind = a AND name = {_PLAIN}) END'
)
_NAME_OF: Final = (
    "CASE b WHEN 0 THEN '-' ELSE "
    + f'coalesce((SELECT max(shown) FROM "{NAMES}" WHERE kind = a AND oid = b), b::VARCHAR) END'
)
#: The columns of a list with their numbers: a row for each item.
_EXPANDED = "unnest(list_transform(a, lambda v, i: {'x': v, 'n': i}))"
_QUOTED = """CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a ELSE '"' || replace(a, '"', '""') || '"' END"""
#: psql lists what is visible, and fails for an index without an access method, as that of a view.
#: What is in no schema of the search path is not visible.
_VISIBLE: Final = (
    f"a IS NOT NULL AND a NOT BETWEEN {VIEW_INDEXES.start} AND {VIEW_INDEXES.stop - 1}"
    f" AND a NOT IN (SELECT oid FROM \"{NAMES}\" WHERE kind = 'hidden')"
)
_SETTINGS = " ".join(f"WHEN {quoted_text(name)} THEN {quoted_text(value)}" for name, value in SHOWN.items())
#: The texts of functions with as many of the parameters `a`, `b`, `c`, `d` as the numbers say.
_FUNCTIONS: Final[dict[str, tuple[tuple[int, ...], str]]] = {
    OID_OF: ((2,), _OID_OF),
    NAME_OF: ((2,), _NAME_OF),
    "_pg_expandarray": ((1,), _EXPANDED),
    "array_lower": ((2,), "1"),
    "array_upper": ((2,), "len(a)"),
    "current_schemas": ((1,), "CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END"),
    "current_setting": ((1, 2), f"CASE lower(a) {_SETTINGS} END"),
    "format_type": ((2,), format_type_sql()),
    "parse_ident": ((1,), "string_split(a, '.')"),
    "pg_encoding_to_char": ((1,), "'UTF8'"),
    "pg_char_to_encoding": ((1,), "6"),
    "pg_get_constraintdef": ((1, 2), _DEFINITION),
    "pg_get_expr": ((2, 3), "a"),
    "pg_get_indexdef": ((1,), _DEFINITION),
    "pg_get_userbyid": ((1,), "'dsms'"),
    "pg_get_viewdef": ((1, 2), _DEFINITION),
    "col_description": ((2,), f'(SELECT definition FROM "{DEFINITIONS}" WHERE oid = a AND part = -1 - b)'),
    "obj_description": ((1, 2), f'(SELECT definition FROM "{DEFINITIONS}" WHERE oid = a AND part = -1)'),
    "quote_ident": ((1,), _QUOTED),
    "quote_literal": ((1,), "'''' || replace(a::VARCHAR, '''', '''''') || ''''"),
    "quote_nullable": ((1,), "coalesce(quote_literal(a), 'NULL')"),
    "set_config": ((3,), "b"),
    "pg_typeof": ((1,), "lower(typeof(a))"),
    **{f"to_{kind}": ((1,), f"{OID_OF}('{kind}', a)") for kind in ("regclass", "regtype", "regnamespace", "regproc")},
    **dict.fromkeys(
        ("pg_relation_size", "pg_total_relation_size", "pg_table_size", "pg_indexes_size", "pg_database_size",
         "pg_tablespace_size", "pg_stat_get_numscans", "pg_stat_get_live_tuples", "pg_stat_get_dead_tuples",
         "pg_stat_get_tuples_returned", "pg_stat_get_tuples_fetched"), ((1, 2), "0"),
    ),
    **dict.fromkeys(
        ("has_any_column_privilege", "has_database_privilege", "has_foreign_data_wrapper_privilege",
         "has_function_privilege", "has_language_privilege", "has_parameter_privilege", "has_schema_privilege",
         "has_sequence_privilege", "has_server_privilege", "has_table_privilege", "has_tablespace_privilege",
         "has_type_privilege", "pg_has_role"), ((2, 3), "true"),
    ),
    "has_column_privilege": ((3, 4), "true"),
    "pg_table_is_visible": ((1,), _VISIBLE),
    **dict.fromkeys(
        ("pg_collation_is_visible", "pg_conversion_is_visible", "pg_function_is_visible", "pg_opclass_is_visible",
         "pg_operator_is_visible", "pg_opfamily_is_visible", "pg_statistics_obj_is_visible",
         "pg_ts_config_is_visible", "pg_ts_dict_is_visible", "pg_ts_parser_is_visible", "pg_ts_template_is_visible",
         "pg_type_is_visible"),
        ((1,), "true"),
    ),
    **dict.fromkeys(
        ("pg_is_other_temp_schema", "pg_relation_is_publishable", "row_security_active", "pg_cancel_backend",
         "pg_terminate_backend"), ((1,), "false"),
    ),
    "pg_jit_available": ((0,), "false"),
    "pg_my_temp_schema": ((0,), "0"),
    **dict.fromkeys(
        ("inet_client_addr", "inet_client_port", "inet_server_addr", "inet_server_port", "txid_current_if_assigned",
         "pg_current_xact_id_if_assigned", "pg_current_wal_lsn", "pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn",
         "pg_last_xact_replay_timestamp"), ((0,), "NULL"),
    ),
    **dict.fromkeys(("pg_postmaster_start_time", "pg_conf_load_time", "clock_timestamp", "statement_timestamp",
                     "transaction_timestamp"), ((0,), "now()")),
    "pg_blocking_pids": ((1,), "[]::BIGINT[]"),
    **dict.fromkeys(
        ("pg_get_function_arguments", "pg_get_function_identity_arguments", "pg_get_function_result",
         "pg_get_function_sqlbody", "pg_get_functiondef", "pg_get_partkeydef", "pg_get_statisticsobjdef",
         "pg_get_statisticsobjdef_columns", "pg_get_partition_constraintdef", "pg_options_to_table",
         "pg_relation_filepath", "pg_relation_filenode", "pg_sequence_last_value", "pg_size_pretty",
         "pg_tablespace_location"),
        ((1,), "NULL"),
    ),
    **dict.fromkeys(("pg_get_function_arg_default", "pg_get_serial_sequence", "shobj_description"), ((2,), "NULL")),
    **dict.fromkeys(("pg_get_ruledef", "pg_get_triggerdef"), ((1, 2), "NULL")),
    **dict.fromkeys(("pg_describe_object", "pg_index_column_has_property"), ((3,), "NULL")),
    **dict.fromkeys(("pg_index_has_property", "pg_indexam_has_property"), ((2,), "NULL")),
}  # fmt: skip
#: Forms of functions whose text depends on the number of arguments.
_FURTHER: Final = {
    "pg_get_indexdef": f"(a, b, c) AS CASE WHEN b = 0 THEN {_DEFINITION} ELSE {_PART} END",
    "format_type": "(a) AS format_type(a, NULL)",
}
NAMES_OF_FUNCTIONS: Final = frozenset(_FUNCTIONS)
_WORD: Final = re.compile(r"\w+")


def macros_for(sql: str) -> str:
    """The definitions of the macros that a text calls, in an order in which each comes after those that it calls.

    >>> macros_for("SELECT pg_my_temp_schema()")
    'CREATE OR REPLACE TEMP MACRO pg_my_temp_schema() AS 0;'
    """
    return "".join(_definition(name) for name in _called(sql))


def _called(sql: str) -> list[str]:
    found: dict[str, None] = {}
    for name in sorted(set(_WORD.findall(sql.lower())) & NAMES_OF_FUNCTIONS):
        inner = [each for each in _called_by(name) if each != name]
        found |= dict.fromkeys([*inner, name])
    return list(found)


@cache
def _called_by(name: str) -> tuple[str, ...]:
    text = f"{_FUNCTIONS[name][1]} {_FURTHER.get(name, '')}"
    called = (set(_WORD.findall(text)) & NAMES_OF_FUNCTIONS) - {name}
    return tuple(dict.fromkeys([*(inner for each in sorted(called) for inner in _called_by(each)), *sorted(called)]))


@cache
def _definition(name: str) -> str:
    counts, text = _FUNCTIONS[name]
    forms = [f"({', '.join('abcd'[:count])}) AS {text}" for count in counts]
    further = [_FURTHER[name]] if name in _FURTHER else []
    return f"CREATE OR REPLACE TEMP MACRO {name}{', '.join([*forms, *further])};"
