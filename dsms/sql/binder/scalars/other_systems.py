"""What to write instead of functions that only other systems have."""

from __future__ import annotations

_TOKENS = "the tokens and roles of clients are in docs/security.md"
_NUMBERS = "number the rows in the client, or leave out PRIMARY KEY: the table then identifies its rows itself"
_MAPS = "an array of structs, ARRAY[ROW('a' AS key, 1 AS value)], or STRUCT(1 AS a) if the names are known"
_KINDS = "DESCRIBE shows the types of the columns of a view or table"
_PARTS = "EXTRACT(DAY FROM t), or STRFTIME(t, '%A')"
_UUID = "the client, or MD5 over columns: results must depend on the logs alone"
#: The hint for a function by its name.
INSTEAD: dict[str, str] = {
    "age": "a - b < INTERVAL '1 day', EXTRACT(EPOCH FROM a - b), or DATE_DIFF('day', b, a)",
    "current_database": "nothing: there is one database, dsms",
    "current_schema": "nothing: all objects are in the schema public",
    "current_setting": "SHOW EXECUTORS; settings of clients are in docs/postgres.md",
    "current_user": _TOKENS,
    "date_bin": "EPOCH_MS(EPOCH_MS(t) - EPOCH_MS(t) % 900000), or a window of TUMBLE",
    "dayname": "STRFTIME(t, '%A')",
    "decode": "CASE, or a column of type VARBINARY",
    "encode": "a column of type VARBINARY, which is base64 in JSON",
    "gen_random_uuid": _UUID,
    "json_arrayagg": "JSON_AGG, with FILTER (WHERE x IS NOT NULL) if NULLs are to be left out",
    "json_each": "columns of type STRUCT<…>, or JSON_KEYS and JSON_EXTRACT",
    "last_day": "DATE_TRUNC('month', d) + INTERVAL '1 month' - INTERVAL '1 day'",
    "list_transform": "UNNEST in a LATERAL subquery, and ARRAY_AGG; or a function in Python (docs/python.md)",
    "make_interval": "INTERVAL '1 day', or n * INTERVAL '1 hour'",
    "map": _MAPS,
    "map_from_entries": _MAPS,
    "monthname": "STRFTIME(t, '%B')",
    "nextval": _NUMBERS,
    "pg_typeof": _KINDS,
    "regexp_split_to_array": "STRING_TO_ARRAY for a fixed separator",
    "row_to_json": "TO_JSON(ROW(a AS a, b AS b)), or JSON_OBJECT('a', a, 'b', b)",
    "session_user": _TOKENS,
    "time_bucket": "a window: TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '15' MINUTE); or DATE_TRUNC",
    "timestampadd": "t + n * INTERVAL '1 day'",
    "timestampdiff": "DATE_DIFF('day', a, b)",
    "timezone": "t AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'",
    "to_base64": "a column of type VARBINARY, which is base64 in JSON",
    "typeof": _KINDS,
    "uuid": _UUID,
    "version": "GET /v1/status",
    "width_bucket": "FLOOR((x - low) / width)",
}


def instead_of(name: str) -> str | None:
    """The hint for a function that only other systems have; None for every other name.

    >>> instead_of("jsonb_each")
    'columns of type STRUCT<…>, or JSON_KEYS and JSON_EXTRACT'
    """
    plain = name.lower()
    return INSTEAD.get(plain) or INSTEAD.get(plain.replace("jsonb_", "json_"))
