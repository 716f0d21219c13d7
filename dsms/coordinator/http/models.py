"""The shapes of the HTTP interface's requests and answers, for its OpenAPI description."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class StatementsRequest(BaseModel):
    """SQL text with one or more statements."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(
        description="statements separated by semicolons",
        examples=["CREATE STREAMED VIEW hot AS SELECT room, temperature FROM R(readings) WHERE temperature > 30;"],
    )


class StatementResultModel(BaseModel):
    """What one statement did."""

    statement: str = Field(description="the statement's kind", examples=["CREATE STREAMED VIEW"])
    message: str = Field(
        description="what was done, in one line",
        examples=['view "hot" created; results in topic "dsms.hot"'],
    )
    columns: list[str] = Field(description="column names of `rows`")
    rows: list[list[Any]] = Field(description="the rows of SHOW, DESCRIBE, EXPLAIN and one-time SELECT")
    notices: list[str] = Field(description="defaults that were applied, and warnings")
    name: str | None = Field(description="the object that was made", examples=["hot"])


class StatementsResponse(BaseModel):
    """The results in the order of the statements."""

    results: list[StatementResultModel]


class ColumnModel(BaseModel):
    """One column."""

    name: str
    type: str = Field(description="Arrow type", examples=["int64"])
    nullable: bool


class ObjectModel(BaseModel):
    """A source, stream, view, table or query. Fields an object does not have are left out."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(examples=["hot"])
    kind: str = Field(examples=["streamed view"])
    sql: str | None = None
    state: str | None = Field(default=None, examples=["running"])
    topic: str | None = Field(default=None, examples=["dsms.hot"])
    key: list[str] | None = Field(default=None, description="primary key; empty for append-only")
    columns: list[ColumnModel] | None = None
    format: str | None = Field(default=None, description="json or avro")
    partitions: int | None = None


class RelationModel(BaseModel):
    """The rows of a view, query or table at an instant."""

    name: str = Field(examples=["hot"])
    at: int = Field(description="the instant; all that the relation holds at it is final")
    columns: list[str]
    rows: list[list[Any]]
    total: int = Field(description="how many rows there are; `rows` has at most `limit` of them")


class DeadLetterModel(BaseModel):
    """A refused record and the reason."""

    model_config = ConfigDict(extra="allow")


class StatusModel(BaseModel):
    """The cluster: executors, fragments, leases and lag."""

    model_config = ConfigDict(extra="allow")

    kafka: str | None = Field(default=None, description="bootstrap address for clients", examples=["localhost:9092"])


class EntityModel(BaseModel):
    """An entity with its attributes; those of each kind are in the documentation."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(examples=["0-o3-739ee8980814102306e9"])


class PlanModel(BaseModel):
    """All objects with their statements, and the plans of queries."""

    model_config = ConfigDict(extra="allow")

    format: int
    objects: list[dict[str, Any]]


class ImportedModel(BaseModel):
    """The objects of a document by name: those that were created, and those that existed already."""

    made: list[str]
    there: list[str] = Field(description="created by the same statement before; left as they are")


class QueryChange(BaseModel):
    """Attributes of a query that can be changed; those that are left out stay."""

    model_config = ConfigDict(extra="forbid")

    weight: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="its share when not all can run at once",
    )
    paused: bool | None = None


class ExecutorChange(BaseModel):
    """Attributes of an executor that can be changed; those that are left out stay."""

    model_config = ConfigDict(extra="forbid")

    min_batch_records: int | None = Field(default=None, ge=1, le=100_000_000)
    max_batch_records: int | None = Field(default=None, ge=1, le=100_000_000)
    target_batch_seconds: float | None = Field(default=None, ge=0.01, le=600, allow_inf_nan=False)
    policy: str | None = Field(default=None, description="the scheduling policy", examples=["chain"])
    state_memory: int | str | None = Field(
        default=None, description="the most bytes of state in redis", examples=["500 MB", "none"]
    )


class PlaceModel(BaseModel):
    """The position of a published record."""

    partition: int
    offset: int
    token: str = Field(description="of this record, for `covers`", examples=["o1:0/17"])


class PublishedModel(BaseModel):
    """The positions of published records, in the order in which they were sent."""

    records: list[PlaceModel]
    token: str | None = Field(description="of all of them, for `covers`", examples=["o1:0/17-19,1/4"])


class RefusedModel(BaseModel):
    """A record that was refused, and why."""

    partition: int
    offset: int
    reason: str
    query: str | None = Field(description="the query that failed on the row; null: the source refused the record")


class CoverModel(BaseModel):
    """Whether a result covers published records, and how far it is."""

    covered: bool = Field(description="whether the result is final with all of them in it")
    processed: bool = Field(description="whether executors have read all of them")
    instant: int | None = Field(description="the greatest instant among them; null: the source can decode none")
    frontier: int | None = Field(description="below it the result is final")
    offsets: dict[str, int] = Field(description="the next offset that the query reads, by partition of the source")
    refused: list[RefusedModel] = Field(description="records that are in no result because they were refused")
    error: str | None = Field(description="why the query has stopped")


class ErrorDetail(BaseModel):
    """What is wrong and what to do."""

    kind: str = Field(description="sql, user, not-found, external or internal", examples=["sql"])
    message: str = Field(examples=['column "x" not found'])
    hint: str | None = Field(examples=["have: a, b"])
    line: int | None = Field(description="of the SQL text, from 1")
    column: int | None = Field(description="of the SQL text, from 1")


class ErrorResponse(BaseModel):
    """Every error has this shape."""

    error: ErrorDetail
