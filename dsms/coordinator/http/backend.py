"""What the routers of the HTTP interface use."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.coordinator.idempotency.calls import IdempotentCalls
from dsms.coordinator.oidc.sign_in import SignIn
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.feed import Feeds
from dsms.coordinator.service.coordinator import Coordinator
from dsms.telemetry.telemetry import Telemetry


@dataclass(frozen=True)
class Backend:
    """The service, the schema registry, and `once`, which runs calls with an idempotency key. Routes that act for a
    caller take the service and the registry from `caller_services` instead."""

    service: Coordinator
    registry: SchemaRegistry
    once: IdempotentCalls
    telemetry: Telemetry
    #: Signs people in to the console at OIDC issuers, if any are configured.
    sign_in: SignIn | None = None
    #: The feeds of this server's event loop; None if the service's own feeds belong to it.
    feeds: Feeds | None = None
