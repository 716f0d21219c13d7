"""Looking up and registering schemas in a schema registry, ours or an external one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import httpx
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from operators.errors import ExternalError

_NOT_FOUND = 404


@lru_cache(maxsize=16)
def _client(url: str) -> SchemaRegistryClient:
    """A client with the token of the environment, where there is one."""
    token = os.environ.get("DSMS_TOKEN")
    return SchemaRegistryClient({"url": url, **({"basic.auth.user.info": f"dsms:{token}"} if token else {})})


@lru_cache(maxsize=64)
def schema_lookup(url: str) -> Callable[[int], dict[str, Any]]:
    """A cached lookup of writer schemas by id. It raises LookupError for an unknown id, ExternalError when
    unreachable."""

    @lru_cache(maxsize=4096)
    def lookup(schema_id: int) -> dict[str, Any]:
        try:
            text = _client(url).get_schema(schema_id).schema_str
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                raise LookupError(f"unknown schema id {schema_id}") from error
            raise ExternalError(f"schema registry failed: {error}") from error
        except httpx.HTTPError as error:
            raise ExternalError(f"schema registry cannot be reached: {error}") from error
        found = json.loads(text or "{}")
        assert isinstance(found, dict)
        return found

    return lookup


def register_schema(url: str, subject: str, schema: dict[str, Any]) -> int:
    """The id of a schema under a subject, registered if it is new."""
    try:
        return int(_client(url).register_schema(subject, Schema(json.dumps(schema), "AVRO")))
    except SchemaRegistryError as error:
        raise ExternalError(f'schema registry refused subject "{subject}": {error}', retryable=False) from error
    except httpx.HTTPError as error:
        raise ExternalError(f"schema registry cannot be reached: {error}") from error
