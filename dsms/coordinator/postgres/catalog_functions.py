"""The functions of PostgreSQL that clients call in queries of the catalog, as macros of DuckDB."""

from __future__ import annotations

from typing import Final

from dsms.coordinator.postgres.catalog_types import format_type_sql

#: The relation with the texts of views, indexes and constraints, which the macros read.
DEFINITIONS: Final = "catalog definitions"
_DEFINITION = f'(SELECT definition FROM "{DEFINITIONS}" WHERE oid = a AND part = 0)'
_PART = f'(SELECT definition FROM "{DEFINITIONS}" WHERE oid = a AND part = b)'
#: The columns of a list with their numbers: a row for each item.
_EXPANDED = "unnest(list_transform(a, lambda v, i: {'x': v, 'n': i}))"
_QUOTED = """CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a ELSE '"' || replace(a, '"', '""') || '"' END"""
#: The texts of functions with as many of the parameters `a`, `b`, `c`, `d` as the numbers say.
_FUNCTIONS: Final[dict[str, tuple[tuple[int, ...], str]]] = {
    "_pg_expandarray": ((1,), _EXPANDED),
    "array_lower": ((2,), "1"),
    "array_upper": ((2,), "len(a)"),
    "current_schemas": ((1,), "CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END"),
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
    "quote_literal": ((1,), "'''' || replace(a, '''', '''''') || ''''"),
    **dict.fromkeys(("pg_relation_size", "pg_total_relation_size", "pg_table_size", "pg_indexes_size"), ((1,), "0")),
    **dict.fromkeys(
        ("has_any_column_privilege", "has_database_privilege", "has_function_privilege", "has_schema_privilege",
         "has_sequence_privilege", "has_table_privilege", "has_type_privilege", "pg_has_role"), ((2, 3), "true"),
    ),
    "has_column_privilege": ((3, 4), "true"),
    **dict.fromkeys(
        ("pg_collation_is_visible", "pg_conversion_is_visible", "pg_function_is_visible", "pg_opclass_is_visible",
         "pg_operator_is_visible", "pg_statistics_obj_is_visible", "pg_table_is_visible", "pg_ts_config_is_visible",
         "pg_ts_dict_is_visible", "pg_ts_parser_is_visible", "pg_ts_template_is_visible", "pg_type_is_visible"),
        ((1,), "true"),
    ),
    **dict.fromkeys(("pg_is_other_temp_schema", "pg_relation_is_publishable"), ((1,), "false")),
    "pg_my_temp_schema": ((0,), "0"),
    **dict.fromkeys(
        ("pg_get_function_arguments", "pg_get_function_identity_arguments", "pg_get_function_result",
         "pg_get_function_sqlbody", "pg_get_functiondef", "pg_get_partkeydef", "pg_get_statisticsobjdef_columns",
         "pg_size_pretty", "pg_tablespace_location", "to_regclass", "to_regtype"), ((1,), "NULL"),
    ),
    **dict.fromkeys(("pg_get_serial_sequence", "shobj_description"), ((2,), "NULL")),
    **dict.fromkeys(("pg_get_ruledef", "pg_get_triggerdef"), ((1, 2), "NULL")),
}  # fmt: skip
#: Forms of functions whose text depends on the number of arguments.
_FURTHER: Final = {
    "pg_get_indexdef": f"(a, b, c) AS CASE WHEN b = 0 THEN {_DEFINITION} ELSE {_PART} END",
    "format_type": "(a) AS format_type(a, NULL)",
}


def _macro(name: str, counts: tuple[int, ...], text: str) -> str:
    forms = [f"({', '.join('abcd'[:count])}) AS {text}" for count in counts]
    return f"CREATE OR REPLACE TEMP MACRO {name}{', '.join([*forms, *_further(name)])};"


def _further(name: str) -> list[str]:
    return [_FURTHER[name]] if name in _FURTHER else []


#: The definitions of all macros.
MACROS: Final = "".join(_macro(name, counts, text) for name, (counts, text) in _FUNCTIONS.items())
