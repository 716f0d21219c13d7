"""Values of a session that PostgreSQL clients ask for: settings, and functions without arguments such as version()."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

#: The version of PostgreSQL that the server reports. Clients ask for it to know which features they may use.
VERSION: Final = "15.0"
#: The settings that the server reports when a session begins.
SETTINGS: Final = {
    "server_version": VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
}
#: The settings that SHOW, current_setting() and pg_settings know, in small letters.
SHOWN: Final = {name.lower(): value for name, value in SETTINGS.items()} | {
    "transaction isolation level": "read committed",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "default_table_access_method": "heap",
    "search_path": "public",
    "is_superuser": "off",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_version_num": "150000",
}
_FUNCTIONS: Final[dict[str, object]] = {
    "version": f"PostgreSQL {VERSION} (dsms)",
    "current_schema": "public",
    "current_database": "dsms",
    "current_catalog": "dsms",
    "pg_backend_pid": 1,
    "pg_is_in_recovery": False,
    "txid_current": 1,
    "pg_advisory_unlock_all": "",
}
_USER: Final = ("current_user", "session_user", "current_role", "user")
#: The functions about the session, whose values need no query.
SESSION_FUNCTIONS: Final = frozenset({*_FUNCTIONS, *_USER})


def function_name(call: exp.Expr) -> str:
    """The name of a called function in PostgreSQL, in small letters.

    >>> import sqlglot
    >>> function_name(sqlglot.parse_one("array_length(a, 1)", dialect="postgres"))
    'array_length'
    """
    return call.name.lower() if isinstance(call, exp.Anonymous) else call.sql("postgres").partition("(")[0].lower()


def session_value(node: exp.Expr, user: str) -> exp.Expr | None:
    """The value, as a literal, of a function about the session, or of current_setting(); None for anything else.

    >>> import sqlglot
    >>> session_value(sqlglot.parse_one("current_setting('TimeZone')", dialect="postgres"), "ann").sql()
    "'UTC'"
    """
    match node:
        case exp.Anonymous() if node.name.lower() == "current_setting" and node.expressions:
            value = SHOWN.get(node.expressions[0].name.lower())
            return None if value is None else exp.Literal.string(value)
        case exp.Func() if not node.expressions:
            return _named(function_name(node), user)
        case exp.Column() if not node.table and not node.this.quoted and node.name.lower() in _USER:
            return exp.convert(user)
        case _:
            return None


def _named(function: str, user: str) -> exp.Expr | None:
    """The value of a function about the session, by its name; None if it is not one."""
    value = user if function in _USER else _FUNCTIONS.get(function)
    return None if value is None else exp.convert(value)
