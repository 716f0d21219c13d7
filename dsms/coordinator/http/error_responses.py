"""Error responses that several calls share, for the OpenAPI description."""

from typing import Any

from dsms.coordinator.http.models import ErrorResponse

Responses = dict[int | str, dict[str, Any]]

BAD_REQUEST: Responses = {
    400: {"model": ErrorResponse, "description": "the request is wrong; nothing was done by the failing statement"},
}
UNKNOWN_NAME: Responses = {404: {"model": ErrorResponse, "description": "no such object"}}
UNAVAILABLE: Responses = {
    503: {"model": ErrorResponse, "description": "another system failed; try again after Retry-After seconds"},
}
