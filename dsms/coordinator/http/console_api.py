"""The web console's files. They hold no data, so whoever has no token may read them: the application asks for one."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from dsms.coordinator.console.assets import START, assets
from dsms.coordinator.http.errors import error_document, json_response
from dsms.coordinator.http.service import Backend
from operators.core.errors import UserError

PREFIX = "/console"
#: The application is only of files from here, and can be shown in no frame of another page.
_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def is_console(path: str) -> bool:
    """Whether a path is that of the console or of one of its files."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def console_router(backend: Backend) -> APIRouter:
    """`GET /console/…`."""
    router = APIRouter(include_in_schema=False)

    @router.get(PREFIX)
    def start() -> Response:
        return RedirectResponse(f"{PREFIX}/")

    @router.get(PREFIX + "/{name:path}")
    def file(name: str, request: Request) -> Response:
        asset = assets().get(name or START)
        if asset is None:
            error = UserError(f'the console has no file "{name}"', hint=f"it begins at {PREFIX}/")
            return json_response(error_document(error, "not-found"), HTTPStatus.NOT_FOUND)
        headers = {**_HEADERS, "ETag": asset.tag}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(asset.content, media_type=asset.media_type, headers=headers)

    return router
