"""Refuses statements that only other systems have, with a hint of what to write instead."""

from __future__ import annotations

from dsms.sql.parser.cursor import Cursor, unquoted_text

_NO_TEMPORARY_OBJECTS = "use CREATE TABLE or CREATE VIEW, and DROP it when you no longer need it"
_ACCESS_BY_TOKENS = "the coordinator is given tokens with roles and topics instead (docs/security.md)"
_ONE_STATEMENT = "each statement is a transaction of its own"
_AUTOMATIC = "leave it out: the system cleans up state and collects statistics while it runs"
#: The first words of such a statement, and what to write instead.
_INSTEAD: dict[tuple[str, ...], str] = {
    ("ANALYZE",): _AUTOMATIC,
    ("BEGIN",): _ONE_STATEMENT,
    ("COMMIT",): _ONE_STATEMENT,
    ("CREATE", "CONNECTION"): "give the Kafka cluster when you start the coordinator, and the topic in REGISTER SOURCE",
    ("CREATE", "DATABASE"): "there is one database, dsms: use CREATE SCHEMA sales, and names such as sales.orders",
    ("CREATE", "EXTERNAL", "TABLE"): "REGISTER SOURCE reads a topic, COPY a file, LOAD TABLE a database",
    ("CREATE", "OR", "REPLACE", "TABLE"): "DROP TABLE IF EXISTS name; CREATE TABLE name (…)",
    (
        "CREATE",
        "PROCEDURE",
    ): "compute values by CREATE FUNCTION or CREATE AGGREGATE; run several statements from a client",
    ("CREATE", "ROLE"): _ACCESS_BY_TOKENS,
    ("CREATE", "SECRET"): "refer to an environment variable or a file by ${secret:NAME} (docs/security.md)",
    (
        "CREATE",
        "SEQUENCE",
    ): "generate the numbers in the client, or leave out PRIMARY KEY: the table then identifies its rows itself",
    ("CREATE", "SOURCE"): "REGISTER SOURCE name (columns) FROM topic",
    ("CREATE", "TEMP"): _NO_TEMPORARY_OBJECTS,
    ("CREATE", "TEMPORARY"): _NO_TEMPORARY_OBJECTS,
    ("CREATE", "TRIGGER"): "use CREATE STREAMED VIEW name AS SELECT …, and read each change from its topic",
    ("CREATE", "TYPE"): "write STRUCT<a INT, …> where the type is used",
    ("CREATE", "USER"): _ACCESS_BY_TOKENS,
    ("DECLARE",): "use COPY (SUBSCRIBE view) TO STDOUT to read changes; a SELECT returns all of its rows at once",
    ("GRANT",): _ACCESS_BY_TOKENS,
    ("PIVOT",): "SELECT … FROM table PIVOT (SUM(v) FOR k IN (1, 2))",
    ("REVOKE",): _ACCESS_BY_TOKENS,
    ("ROLLBACK",): _ONE_STATEMENT,
    ("START", "TRANSACTION"): _ONE_STATEMENT,
    ("SUBSCRIBE",): "dsms consume NAME follows a result; over the PostgreSQL port, COPY (SUBSCRIBE NAME) TO STDOUT",
    ("UNPIVOT",): "SELECT … FROM table UNPIVOT (v FOR name IN (a, b))",
    ("USE",): "write the schema before the name, as in sales.orders",
    ("VACUUM",): _AUTOMATIC,
}


def refuse_other_systems(cursor: Cursor) -> None:
    """Raises SqlError for a statement that only other systems have."""
    ahead = [unquoted_text(token).upper() for token in cursor.tokens[cursor.at : cursor.at + 4]]
    for words, instead in _INSTEAD.items():
        if ahead[: len(words)] == list(words):
            cursor.fail(f"{' '.join(words)} is not supported", instead)
