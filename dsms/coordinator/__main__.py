"""`python -m dsms.coordinator`: the coordinator process."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from connectors.credentials.secrets import resolved_url
from connectors.kafka.client.properties import kafka_settings
from dsms.command import logged_alarms, serve
from dsms.coordinator.election.candidate import Candidate, Timing
from dsms.coordinator.election.leadership import Leadership
from dsms.coordinator.election.running import ServerSetup, contend, end_at_once, lead_alone
from dsms.coordinator.http.access import Access, read_tokens
from dsms.coordinator.http.pages import HostNames
from dsms.coordinator.http.serving import Address
from dsms.coordinator.oidc.issuers import read_issuers
from dsms.coordinator.oidc.sign_in import SignIn
from dsms.coordinator.oidc.tokens import OidcTokens
from dsms.coordinator.service.coordinator import Coordinator
from dsms.coordinator.service.settings import CoordinatorSettings
from dsms.coordinator.sinks.allowed_targets import AllowedTargets
from dsms.coordinator.statements.registry_hosts import RegistryHosts
from dsms.coordinator.tables.load_policy import LoadPolicy
from dsms.coordinator.watcher.autoscaler import Scale
from dsms.local.watchdog import Watchdog
from dsms.model.limits import read_limits
from dsms.model.topic_rules import TopicRules
from dsms.placement.executor_count import Scaling
from dsms.state.stores import StateAddress
from dsms.telemetry.telemetry import Telemetry
from operators.core.call_depth import STACK_BYTES, allow_deep_calls


def main(  # noqa: PLR0913 one parameter for each option
    *,
    kafka: Annotated[str, typer.Option(envvar="DSMS_KAFKA", help="Kafka's bootstrap address, HOST:PORT")],
    redis: Annotated[str, typer.Option(envvar="DSMS_REDIS", help="URL of Redis")],
    http_port: Annotated[int, typer.Option(envvar="DSMS_HTTP_PORT", help="port of the REST API")] = 8080,
    host: Annotated[str, typer.Option(envvar="DSMS_HOST", help="address to listen on")] = "127.0.0.1",
    cluster: Annotated[str, typer.Option(envvar="DSMS_CLUSTER", help="name of the cluster")] = "local",
    registry: Annotated[
        str | None,
        typer.Option(envvar="DSMS_REGISTRY", help="URL of an external schema registry, instead of our own"),
    ] = None,
    load_dir: Annotated[
        Path | None, typer.Option(envvar="DSMS_LOAD_DIR", help="directory of files that COPY may read")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            envvar="DSMS_TOKENS", help="file of API tokens, made by dsms token; without it, everybody may do everything"
        ),
    ] = None,
    oidc: Annotated[
        Path | None,
        typer.Option(envvar="DSMS_OIDC", help="file of the trusted OIDC issuers, and what their tokens permit"),
    ] = None,
    load_databases: Annotated[
        bool, typer.Option(envvar="DSMS_LOAD_DATABASES", help="whether LOAD TABLE may connect to databases")
    ] = False,
    python: Annotated[
        bool,
        typer.Option(envvar="DSMS_PYTHON", help="whether administrators may deploy functions and aggregates in Python"),
    ] = False,
    fragments: Annotated[
        int,
        typer.Option(min=1, envvar="DSMS_FRAGMENTS", help="number of fragments; new queries are distributed over them"),
    ] = 1,
    limits: Annotated[
        str, typer.Option(envvar="DSMS_LIMITS", help="limits other than the defaults, NAME=NUMBER separated by spaces")
    ] = "",
    open_topics: Annotated[
        str, typer.Option(envvar="DSMS_OPEN_TOPICS", help="patterns of reserved topics that sources may read")
    ] = "",
    registries: Annotated[
        str,
        typer.Option(
            envvar="DSMS_REGISTRIES",
            help="hosts of schema registries that writers may name: HOST, HOST:PORT, *.DOMAIN; by default any",
        ),
    ] = "",
    sinks: Annotated[
        str,
        typer.Option(
            envvar="DSMS_SINKS",
            help="directories and URLs, separated by commas, below which CREATE SINK may write; by default none",
        ),
    ] = "",
    hosts: Annotated[
        str,
        typer.Option(
            envvar="DSMS_HOSTS",
            help="names by which clients call the server, besides addresses, localhost and names without a dot",
        ),
    ] = "",
    kafka_properties: Annotated[
        Path | None,
        typer.Option(envvar="DSMS_KAFKA_PROPERTIES", help="file of Kafka client settings, one NAME=VALUE per line"),
    ] = None,
    postgres_port: Annotated[
        int | None,
        typer.Option(envvar="DSMS_POSTGRES_PORT", help="port of the PostgreSQL protocol, for psql and similar clients"),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(envvar="DSMS_TLS_CERT", help="HTTPS certificate, PEM")] = None,
    tls_key: Annotated[
        Path | None, typer.Option(envvar="DSMS_TLS_KEY", help="key of the HTTPS certificate, PEM")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            envvar="DSMS_TLS_CLIENT_CA",
            help="certificate authority of client certificates; with it, every client must present one",
        ),
    ] = None,
    probe_port: Annotated[
        int | None,
        typer.Option(envvar="DSMS_PROBE_PORT", help="separate port for /healthz and /readyz only, without TLS"),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(envvar="DSMS_LEASE", help="Kubernetes Lease by which several coordinators elect a leader"),
    ] = None,
    lease_namespace: Annotated[
        str, typer.Option(envvar="DSMS_LEASE_NAMESPACE", help="namespace of the lease and of the executors")
    ] = "default",
    lease_seconds: Annotated[
        int,
        typer.Option(
            envvar="DSMS_LEASE_SECONDS", help="seconds after which others may take the lease of a silent leader"
        ),
    ] = Timing.lease_s,
    lease_renew_seconds: Annotated[
        float,
        typer.Option(
            envvar="DSMS_LEASE_RENEW_SECONDS", help="seconds after which a leader that cannot renew the lease ends"
        ),
    ] = Timing.renew_s,
    lease_retry_seconds: Annotated[
        float,
        typer.Option(envvar="DSMS_LEASE_RETRY_SECONDS", help="seconds between two attempts to take or renew the lease"),
    ] = Timing.retry_s,
    scale: Annotated[
        str | None,
        typer.Option(
            envvar="DSMS_SCALE", help="Kubernetes StatefulSet of executors; with it, their number follows the load"
        ),
    ] = None,
    least_executors: Annotated[
        int, typer.Option(min=1, envvar="DSMS_LEAST_EXECUTORS", help="least number of executors")
    ] = 1,
    most_executors: Annotated[
        int, typer.Option(min=1, envvar="DSMS_MOST_EXECUTORS", help="greatest number of executors")
    ] = 1,
    scale_up_seconds: Annotated[
        float,
        typer.Option(
            envvar="DSMS_SCALE_UP_SECONDS", help="seconds a query must fall behind before executors are added"
        ),
    ] = Scaling.up_s,
    scale_down_seconds: Annotated[
        float,
        typer.Option(
            envvar="DSMS_SCALE_DOWN_SECONDS", help="seconds all queries must be caught up before executors are removed"
        ),
    ] = Scaling.down_s,
    id: Annotated[str, typer.Option(envvar="DSMS_ID", help="name of this coordinator among several")] = "coordinator",
) -> None:
    """Serves the REST API and assigns fragments to executors.

    Example: python -m dsms.coordinator --kafka 127.0.0.1:9092 --redis redis://127.0.0.1:6379
    """
    allow_deep_calls()
    threading.stack_size(STACK_BYTES)
    scaling = Scaling(least_executors, max(least_executors, most_executors), scale_up_seconds, scale_down_seconds)
    settings = CoordinatorSettings(
        kafka=kafka_settings(kafka, kafka_properties, os.environ),
        state_url=StateAddress(resolved_url(redis, os.environ), cluster).url,
        cluster=cluster,
        registry_url=registry,
        loads=LoadPolicy(load_dir, databases=load_databases),
        python=python,
        fragments=fragments,
        limits=read_limits(limits),
        topic_rules=TopicRules(tuple(open_topics.replace(",", " ").split())),
        registry_hosts=RegistryHosts.of(registries),
        sinks=AllowedTargets.of(sinks),
        executors=scaled(lease_namespace, scale, scaling),
        alarms=logged_alarms(),
    )
    make = partial(Coordinator, settings)
    access = read_access(tokens, oidc)
    telemetry = Telemetry("dsms-coordinator", id, os.environ)
    address = Address(host, http_port, tls_cert, tls_key, tls_client_ca, probe_port)
    setup = ServerSetup(make, address, access, telemetry, postgres_port, HostNames.of(hosts), Watchdog().progress)
    stopping = stopped_by_signals()
    if lease is None:
        lead_alone(setup, stopping)
        return
    from connectors.kubernetes.lease_object import KubernetesLease  # it takes 0.3 s, needed only for an election

    timing = Timing(lease_seconds, lease_renew_seconds, lease_retry_seconds)
    store = KubernetesLease(lease_namespace, lease, timing.renew_s / 2)
    candidate = Candidate(f"{id}_{uuid.uuid4().hex[:12]}", timing)
    contend(setup, Leadership(store, candidate, end_at_once), stopping)


def scaled(namespace: str, name: str | None, scaling: Scaling) -> tuple[Scale, Scaling] | None:
    """The StatefulSet of this name with the bounds of its replica count; None without a name."""
    if name is None:
        return None
    from connectors.kubernetes.scale import KubernetesScale  # imported here for the same reason as the lease

    return KubernetesScale(namespace, name), scaling


def read_access(tokens: Path | None, oidc: Path | None) -> Access | None:
    """The tokens that give access; None if access is open to everybody."""
    if tokens is None and oidc is None:
        return None
    own = read_tokens(tokens) if tokens else Access(())
    if oidc is None:
        return own
    issuers = read_issuers(oidc)
    return replace(own, oidc=OidcTokens(issuers), sign_in=SignIn(issuers))


def stopped_by_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


if __name__ == "__main__":
    serve(main)
