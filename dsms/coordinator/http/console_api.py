"""The HTTP calls of the web console: its files, and sign-in. The files hold no data, so reading them needs no token;
the application asks for one."""

from http import HTTPStatus

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from dsms.coordinator.console.assets import START, assets
from dsms.coordinator.http.errors import error_document, json_response
from dsms.coordinator.http.service import Backend
from dsms.coordinator.oidc.sign_in import Exchange
from operators.core.errors import UserError

CONSOLE_PATH = "/console"
#: The path of sign-in at an issuer; it is not a file.
SIGN_IN = f"{CONSOLE_PATH}/sign-in"
#: The application loads files from this server only, and no other page can show it in a frame.
_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_NOT_KEPT = {**_HEADERS, "Cache-Control": "no-store"}


def is_console(path: str) -> bool:
    """Whether a path belongs to the console."""
    return path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")


def console_router(backend: Backend) -> APIRouter:
    """`GET /console/…`, and `POST /console/sign-in`."""
    router = APIRouter(include_in_schema=False)

    @router.get(CONSOLE_PATH)
    def start() -> Response:
        return RedirectResponse(f"{CONSOLE_PATH}/")

    @router.get(SIGN_IN)
    def issuers() -> Response:
        return json_response(backend.sign_in.login_options() if backend.sign_in is not None else [], headers=_HEADERS)

    @router.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        if backend.sign_in is None:
            raise UserError("signing in is not configured: no issuer has a console", hint="see docs/security.md#oidc")
        try:
            given = msgspec.json.decode(await request.body(), type=Exchange)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UserError(f"the sign-in request is invalid: {error}") from error
        return json_response({"token": await backend.sign_in.token(given)}, headers=_NOT_KEPT)

    @router.get(CONSOLE_PATH + "/{name:path}")
    def file(name: str, request: Request) -> Response:
        asset = assets().get(name or START)
        if asset is None:
            error = UserError(f'the console has no file "{name}"', hint=f"the console starts at {CONSOLE_PATH}/")
            return json_response(error_document(error, "not-found"), HTTPStatus.NOT_FOUND)
        headers = {**_HEADERS, "ETag": asset.tag}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(asset.content, media_type=asset.media_type, headers=headers)

    return router
