"""Refuses statements that only other systems have, with a hint of what to write instead."""

from __future__ import annotations

from dsms.sql.parser.cursor import Cursor, mark

_ONE_SCHEMA = "all objects are in the schema public: let names begin with that of the schema, as in sales_orders"
_NOT_KEPT = "CREATE TABLE or CREATE VIEW, and DROP it when it is not needed any more"
_RIGHTS = "tokens with roles and topics are given at the coordinator (docs/security.md)"
_ANEW = "DROP it and create it again; CREATE TABLE new AS SELECT … FROM old keeps rows of a table"
_ONE_STATEMENT = "each statement is a transaction of its own"
_SERVED = "nothing is to be done: state is cleaned and statistics are taken as records come"
#: The first words of such a statement, and what to write instead.
_INSTEAD: dict[tuple[str, ...], str] = {
    ("ALTER", "SOURCE"): _ANEW,
    ("ALTER", "STREAM"): _ANEW,
    ("ALTER", "TABLE"): _ANEW,
    ("ANALYZE",): _SERVED,
    ("BEGIN",): _ONE_STATEMENT,
    ("COMMENT", "ON"): "write the comment into the statement: SHOW CREATE gives it back",
    ("COMMIT",): _ONE_STATEMENT,
    ("CREATE", "CONNECTION"): "name the cluster where the coordinator is started, and the topic in REGISTER SOURCE",
    ("CREATE", "DATABASE"): _ONE_SCHEMA,
    ("CREATE", "EXTERNAL", "TABLE"): "REGISTER SOURCE reads a topic, COPY a file, LOAD TABLE a database",
    ("CREATE", "OR", "REPLACE", "TABLE"): "DROP TABLE IF EXISTS name; CREATE TABLE name (…)",
    ("CREATE", "PROCEDURE"): "CREATE AGGREGATE and CREATE FUNCTION compute; a client runs statements one after another",
    ("CREATE", "ROLE"): _RIGHTS,
    ("CREATE", "SCHEMA"): _ONE_SCHEMA,
    ("CREATE", "SECRET"): "secrets are referred to by the names of variables or files (docs/security.md)",
    ("CREATE", "SEQUENCE"): "who inserts gives numbers; a table without PRIMARY KEY tells its rows apart by itself",
    ("CREATE", "SINK"): "results are in the topic dsms.NAME, or in the one of WITH (topic = 'name')",
    ("CREATE", "SOURCE"): "REGISTER SOURCE name (columns) FROM topic",
    ("CREATE", "TEMP"): _NOT_KEPT,
    ("CREATE", "TEMPORARY"): _NOT_KEPT,
    ("CREATE", "TRIGGER"): "CREATE STREAMED VIEW name AS SELECT …: its topic has each change",
    ("CREATE", "TYPE"): "write STRUCT<a INT, …> where the type is used",
    ("CREATE", "USER"): _RIGHTS,
    ("DECLARE",): "COPY (SUBSCRIBE view) TO STDOUT reads changes; a SELECT gives all of its rows",
    ("DROP", "SCHEMA"): _ONE_SCHEMA,
    ("GRANT",): _RIGHTS,
    ("REVOKE",): _RIGHTS,
    ("ROLLBACK",): _ONE_STATEMENT,
    ("START", "TRANSACTION"): _ONE_STATEMENT,
    ("VACUUM",): _SERVED,
    ("VALUES",): "SELECT * FROM (VALUES (1, 2), (3, 4)) AS v (a, b)",
}


def refuse_other_systems(cursor: Cursor) -> None:
    """Raises SqlError for a statement that only other systems have."""
    ahead = [mark(token).upper() for token in cursor.tokens[cursor.at : cursor.at + 4]]
    for words, instead in _INSTEAD.items():
        if ahead[: len(words)] == list(words):
            cursor.fail(f"{' '.join(words)} is not supported", instead)
