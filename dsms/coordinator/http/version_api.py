"""The HTTP call that returns the versions of the system and of its HTTP interface."""

from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.errors import json_response

#: The version of the interface, as it is in the paths of its calls.
PROTOCOL = 1


class VersionModel(BaseModel):
    """The versions of the system and of its HTTP interface."""

    system: str | None = Field(description="null if it runs without being installed", examples=["0.1.0"])
    protocol: int = Field(description="the number in the paths: `/v1/…`", examples=[PROTOCOL])


def version_router(backend: Backend) -> APIRouter:
    """`GET /v1/version`."""
    router = APIRouter(prefix=f"/v{PROTOCOL}", tags=["version"])

    @router.get("/version", summary="The versions of the system and of this interface", response_model=VersionModel)
    def versions() -> Response:
        return json_response({"system": _installed(), "protocol": PROTOCOL})

    return router


def _installed() -> str | None:
    try:
        return version("dsms")
    except PackageNotFoundError:
        return None
