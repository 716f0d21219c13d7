"""Looking up and registering schemas in a schema registry, ours or an external one.

Its library is imported when a registry is first asked: it brings others along and takes 0.3 s of every process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from operators.errors import ExternalError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

_NOT_FOUND = 404
_Answer = TypeVar("_Answer")


@lru_cache(maxsize=64)
def schema_lookup(url: str) -> Callable[[int], dict[str, Any]]:
    """A cached lookup of writer schemas by id. It raises LookupError for an unknown id, ExternalError when
    unreachable."""

    @lru_cache(maxsize=4096)
    def lookup(schema_id: int) -> dict[str, Any]:
        def failed(error: SchemaRegistryError) -> Exception:
            if error.http_status_code == _NOT_FOUND:
                return LookupError(f"unknown schema id {schema_id}")
            return ExternalError(f"schema registry failed: {error}")

        text = _answer(url, lambda client: client.get_schema(schema_id).schema_str, failed)
        found = json.loads(text or "{}")
        assert isinstance(found, dict)
        return found

    return lookup


def register_schema(url: str, subject: str, schema: dict[str, Any]) -> int:
    """The id of a schema under a subject, registered if it is new."""

    def register(client: SchemaRegistryClient) -> int:
        from confluent_kafka.schema_registry import Schema

        return int(client.register_schema(subject, Schema(json.dumps(schema), "AVRO")))

    def refused(error: SchemaRegistryError) -> Exception:
        return ExternalError(f'schema registry refused subject "{subject}": {error}', retryable=False)

    return _answer(url, register, refused)


def _answer(
    url: str, ask: Callable[[SchemaRegistryClient], _Answer], refused: Callable[[SchemaRegistryError], Exception]
) -> _Answer:
    import httpx
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        return ask(_client(url))
    except SchemaRegistryError as error:
        raise refused(error) from error
    except httpx.HTTPError as error:
        raise ExternalError(f"schema registry cannot be reached: {error}") from error


@lru_cache(maxsize=16)
def _client(url: str) -> SchemaRegistryClient:
    """A client with the token of the environment, where there is one."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    token = os.environ.get("DSMS_TOKEN")
    return SchemaRegistryClient({"url": url, **({"basic.auth.user.info": f"dsms:{token}"} if token else {})})
