"""Clients of the coordinator: `Client` for plain Python, `AsyncClient` for asyncio.

>>> from dsms.client import Client, Unavailable
>>> with Client("http://127.0.0.1:1", attempts=1) as client:
...     try:
...         client.execute("SHOW STREAMS")
...     except Unavailable as error:
...         print(error.kind, error.hint)
external start one with "dsms up", or pass --coordinator URL
"""

from dsms.client.asynchronous import AsyncClient
from dsms.client.blocking import Client
from dsms.client.documents import Change, Cover, Document, RecordPosition, RefusedRecord, Relation, Row, Token
from dsms.client.errors import (
    ApiError,
    Forbidden,
    NotCovered,
    NotFound,
    OutcomeUnknown,
    PositionGone,
    RecordRefused,
    Refused,
    ServerDefect,
    StatementError,
    Unauthorized,
    Unavailable,
)
from dsms.client.feed import ResultDropped
from dsms.model.statement_result import StatementResult

__all__ = [
    "ApiError",
    "AsyncClient",
    "Change",
    "Client",
    "Cover",
    "Document",
    "Forbidden",
    "NotCovered",
    "NotFound",
    "OutcomeUnknown",
    "RecordPosition",
    "PositionGone",
    "RecordRefused",
    "Refused",
    "RefusedRecord",
    "Relation",
    "ResultDropped",
    "Row",
    "ServerDefect",
    "StatementError",
    "StatementResult",
    "Token",
    "Unauthorized",
    "Unavailable",
]
