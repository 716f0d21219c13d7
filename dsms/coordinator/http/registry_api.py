"""The schema registry's HTTP endpoints, compatible with Confluent clients."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from dsms.coordinator.http.access import needs
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerRegistry, CallerService
from dsms.coordinator.http.errors import REGISTRY_MEDIA_TYPE, calls_registry, dsms_error_response
from dsms.coordinator.registry.schema_types import SCHEMA_TYPES, InvalidSchema, type_of
from dsms.coordinator.registry.subjects import RegisteredSchema, RegistryError
from operators.core.errors import UserError


class RegistryResponse(JSONResponse):
    media_type = REGISTRY_MEDIA_TYPE


class Reference(BaseModel):
    """A version of a subject to which a schema refers; `name` is its name in the schema."""

    name: str
    subject: str
    version: int = Field(ge=1)


class SchemaRequest(BaseModel):
    """A schema to register, to look up or to check."""

    schema_text: str = Field(
        alias="schema",
        description="the schema as JSON text; for Protobuf, the compiled file in base64",
        examples=['"string"'],
    )
    schemaType: str | None = Field(default=None, description="AVRO or PROTOBUF")  # noqa: N815 (the wire's name)
    references: list[Reference] | None = Field(default=None, description="the files that a Protobuf file imports")


class RegistrationRequest(SchemaRequest):
    """A schema to register; in mode IMPORT with the id, and optionally the version, that it has in another registry."""

    schema_id: int | None = Field(default=None, alias="id", description="only in mode IMPORT: the id of the schema")
    version: int | None = Field(default=None, description="only in mode IMPORT: the version under the subject")


class ModeRequest(BaseModel):
    """A mode to set."""

    mode: str = Field(examples=["IMPORT"])


class ConfigRequest(BaseModel):
    """A compatibility level to set."""

    compatibility: str = Field(examples=["BACKWARD"])


def registry_error_response(request: Request, error: Exception) -> Response:
    """The error in the format of the interface that was called: {"error_code", "message"} for registry clients."""
    assert isinstance(error, RegistryError)
    if not calls_registry(request):
        return dsms_error_response(request, error)
    return RegistryResponse({"error_code": error.code, "message": str(error)}, status_code=error.status)


def registry_router(backend: Backend) -> APIRouter:
    """All endpoints of the registry. Subjects may contain slashes, so routes with longer paths come before shorter
    ones."""
    router = APIRouter(tags=["schema registry"], default_response_class=RegistryResponse)
    for add in (
        _add_writing,
        _add_schemas,
        _add_config,
        _add_modes,
        _add_compatibility,
        _add_versions,
        _add_subjects,
        _add_constants,
    ):
        add(router)
    return router


def _add_constants(router: APIRouter) -> None:
    @router.get("/")
    def root() -> dict[str, str]:
        return {}

    @router.get("/contexts")
    def contexts() -> list[str]:
        return ["."]


def _add_modes(router: APIRouter) -> None:
    @router.get("/mode")
    def mode(registry: CallerRegistry) -> dict[str, Any]:
        return {"mode": registry.mode()}

    @router.put("/mode")
    @needs("administrator")
    def set_mode(registry: CallerRegistry, request: ModeRequest, force: bool = False) -> dict[str, str]:
        return {"mode": registry.set_mode(request.mode, force=force)}

    @router.get("/mode/{subject:path}")
    def subject_mode(registry: CallerRegistry, subject: str, defaultToGlobal: bool = False) -> dict[str, Any]:  # noqa: N803 (the wire's name)
        mode = registry.mode(subject) or (registry.mode() if defaultToGlobal else None)
        if mode is None:
            raise RegistryError(40409, f'subject "{subject}" has no mode of its own')
        return {"mode": mode}

    @router.put("/mode/{subject:path}")
    @needs("administrator")
    def set_subject_mode(
        registry: CallerRegistry, subject: str, request: ModeRequest, force: bool = False
    ) -> dict[str, str]:
        return {"mode": registry.set_mode(request.mode, subject, force=force)}

    @router.delete("/mode/{subject:path}")
    @needs("administrator")
    def reset_subject_mode(registry: CallerRegistry, subject: str) -> dict[str, Any]:
        return {"mode": registry.reset_mode(subject)}


def _add_schemas(router: APIRouter) -> None:
    @router.get("/schemas/types")
    def types() -> list[str]:
        return list(SCHEMA_TYPES)

    @router.get("/schemas/ids/{schema_id}")
    def schema_by_id(registry: CallerRegistry, schema_id: int) -> dict[str, Any]:
        return _answer(registry.by_id(schema_id))

    @router.get("/schemas/ids/{schema_id}/schema")
    def schema_text_by_id(registry: CallerRegistry, schema_id: int) -> PlainTextResponse:
        return PlainTextResponse(_answer(registry.by_id(schema_id))["schema"], media_type=REGISTRY_MEDIA_TYPE)

    @router.get("/schemas/ids/{schema_id}/subjects")
    def subjects_of_id(registry: CallerRegistry, schema_id: int, deleted: bool = False) -> list[str]:
        return sorted({subject for subject, _ in registry.uses(schema_id, deleted=deleted)})

    @router.get("/schemas/ids/{schema_id}/versions")
    def versions_of_id(registry: CallerRegistry, schema_id: int, deleted: bool = False) -> list[dict[str, Any]]:
        return [{"subject": s, "version": v} for s, v in registry.uses(schema_id, deleted=deleted)]


def _add_config(router: APIRouter) -> None:
    @router.get("/config")
    def level(registry: CallerRegistry) -> dict[str, Any]:
        return {"compatibilityLevel": registry.compatibility()}

    @router.put("/config")
    @needs("administrator")
    def set_level(registry: CallerRegistry, request: ConfigRequest) -> dict[str, str]:
        return {"compatibility": registry.set_compatibility(request.compatibility)}

    @router.delete("/config")
    @needs("administrator")
    def reset_level(registry: CallerRegistry) -> dict[str, Any]:
        registry.reset_compatibility()
        return {"compatibility": registry.compatibility()}

    @router.get("/config/{subject:path}")
    def subject_level(registry: CallerRegistry, subject: str, defaultToGlobal: bool = False) -> dict[str, Any]:  # noqa: N803 (the wire's name)
        level = registry.compatibility(subject) or (registry.compatibility() if defaultToGlobal else None)
        if level is None:
            raise RegistryError(40408, f'subject "{subject}" has no compatibility level of its own')
        return {"compatibilityLevel": level}

    @router.put("/config/{subject:path}")
    @needs("administrator")
    def set_subject_level(registry: CallerRegistry, subject: str, request: ConfigRequest) -> dict[str, str]:
        return {"compatibility": registry.set_compatibility(request.compatibility, subject)}

    @router.delete("/config/{subject:path}")
    @needs("administrator")
    def reset_subject_level(registry: CallerRegistry, subject: str) -> dict[str, Any]:
        return {"compatibility": registry.reset_compatibility(subject)}


def _add_compatibility(router: APIRouter) -> None:
    @router.post("/compatibility/subjects/{subject:path}/versions")
    @needs("reader")
    def check(registry: CallerRegistry, subject: str, request: SchemaRequest, verbose: bool = False) -> dict[str, Any]:
        return _verdict(registry.check(subject, _text(request)), verbose=verbose)

    @router.post("/compatibility/subjects/{subject:path}/versions/{version}")
    @needs("reader")
    def check_version(
        registry: CallerRegistry, subject: str, version: str, request: SchemaRequest, verbose: bool = False
    ) -> dict[str, Any]:
        return _verdict(registry.check(subject, _text(request), version), verbose=verbose)


def _add_writing(router: APIRouter) -> None:
    @router.post("/subjects/{subject:path}/versions")
    def register(
        service: CallerService, registry: CallerRegistry, subject: str, request: RegistrationRequest
    ) -> dict[str, int]:
        try:
            service.check_subject(subject)
        except UserError as error:
            raise RegistryError(42201, error.message, hint=error.hint) from error
        return {"id": registry.register(subject, _text(request), request.schema_id, request.version)}


def _add_versions(router: APIRouter) -> None:
    @router.get("/subjects/{subject:path}/versions")
    def versions(registry: CallerRegistry, subject: str, deleted: bool = False) -> list[int]:
        return registry.versions(subject, deleted=deleted)

    @router.get("/subjects/{subject:path}/versions/{version}/schema")
    def schema_text(registry: CallerRegistry, subject: str, version: str, deleted: bool = False) -> PlainTextResponse:
        document = registry.version(subject, version, deleted=deleted).schema
        return PlainTextResponse(_answer(document)["schema"], media_type=REGISTRY_MEDIA_TYPE)

    @router.get("/subjects/{subject:path}/versions/{version}/referencedby")
    def referenced_by(registry: CallerRegistry, subject: str, version: str) -> list[int]:
        return registry.referring(subject, version)

    @router.get("/subjects/{subject:path}/versions/{version}")
    def version_of(registry: CallerRegistry, subject: str, version: str, deleted: bool = False) -> dict[str, Any]:
        return _document(registry.version(subject, version, deleted=deleted))

    @router.delete("/subjects/{subject:path}/versions/{version}")
    @needs("administrator")
    def delete_version(registry: CallerRegistry, subject: str, version: str, permanent: bool = False) -> int:
        return registry.delete_version(subject, version, permanent=permanent)


def _add_subjects(router: APIRouter) -> None:
    @router.get("/subjects")
    def subjects(registry: CallerRegistry, deleted: bool = False) -> list[str]:
        return registry.subjects(deleted=deleted)

    @router.post("/subjects/{subject:path}")
    @needs("reader")
    def lookup(registry: CallerRegistry, subject: str, request: SchemaRequest, deleted: bool = False) -> dict[str, Any]:
        return _document(registry.lookup(subject, _text(request), deleted=deleted))

    @router.delete("/subjects/{subject:path}")
    @needs("administrator")
    def delete_subject(registry: CallerRegistry, subject: str, permanent: bool = False) -> list[int]:
        return registry.delete_subject(subject, permanent=permanent)


def _text(request: SchemaRequest) -> str:
    """The document of the schema in a request."""
    kind = SCHEMA_TYPES.get(request.schemaType or "AVRO")
    if kind is None:
        have = ", ".join(SCHEMA_TYPES)
        raise RegistryError(42201, f'schema type "{request.schemaType}" unknown', hint=f"have: {have}")
    try:
        return kind.document(request.schema_text, [reference.model_dump() for reference in request.references or ()])
    except InvalidSchema as error:
        raise RegistryError(42201, error.message, hint=error.hint) from error


def _answer(document: str) -> dict[str, Any]:
    """The schema, its type unless it is Avro, and its references."""
    return type_of(document).answer(document)


def _verdict(problems: list[str], *, verbose: bool) -> dict[str, Any]:
    verdict: dict[str, Any] = {"is_compatible": not problems}
    return {**verdict, "messages": problems} if verbose else verdict


def _document(registered: RegisteredSchema) -> dict[str, Any]:
    return {
        "subject": registered.subject,
        "version": registered.version,
        "id": registered.id,
        **_answer(registered.schema),
    }
