"""Models of documents that several routes share, and of error responses, for the OpenAPI document. Models of a single
router are in its own file."""

from typing import Any

from pydantic import BaseModel, Field

from dsms.coordinator.http.errors import ErrorKind

#: The unit of the limits of request sizes.
MEGABYTE = 1024 * 1024


class StatementResultModel(BaseModel):
    """The result of one statement."""

    statement: str = Field(description="the statement's kind", examples=["CREATE STREAMED VIEW"])
    message: str = Field(
        description="the effect, in one line",
        examples=['view "hot" created; results in topic "dsms.hot"'],
    )
    columns: list[str] = Field(description="column names of `rows`")
    rows: list[list[Any]] = Field(description="the rows of SHOW, DESCRIBE, EXPLAIN and one-time SELECT")
    notices: list[str] = Field(description="defaults that were applied, and warnings")
    name: str | None = Field(description="the created object", examples=["hot"])
    types: list[str] = Field(
        description="types of the columns of a one-time SELECT, in DuckDB's names", examples=[["INTEGER"]]
    )
    instant: int | None = Field(None, description="the instant at which a one-time SELECT was answered")
    behind_ms: int | None = Field(None, description="how many ms that instant was in the past, if instants are times")


class ErrorDetail(BaseModel):
    """What is wrong, and what to do about it."""

    kind: ErrorKind = Field(examples=["sql"])
    message: str = Field(examples=['column "x" not found'])
    hint: str | None = Field(examples=["have: a, b"])
    line: int | None = Field(description="line in the SQL text, from 1")
    column: int | None = Field(description="column in the SQL text, from 1")


class ErrorResponse(BaseModel):
    """Every error has this shape."""

    error: ErrorDetail


Responses = dict[int | str, dict[str, Any]]

BAD_REQUEST: Responses = {
    400: {"model": ErrorResponse, "description": "the request is invalid; the failing statement changed nothing"},
}
UNKNOWN_NAME: Responses = {404: {"model": ErrorResponse, "description": "no such object"}}
UNAVAILABLE: Responses = {
    503: {"model": ErrorResponse, "description": "another system failed; try again after Retry-After seconds"},
}
