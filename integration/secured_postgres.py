"""A coordinator whose port for clients of PostgreSQL needs tokens and TLS."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from dsms.local.ports import free_port
from integration.self_signed import certificate


@dataclass(frozen=True)
class SecuredPostgres:
    """The variables with which the coordinator is started, and how clients connect."""

    environment: Mapping[str, str]
    conninfo: str

    def connect(self, token: str) -> psycopg.Connection:
        """A connection of the client with this token. Raises OperationalError if the token is not known."""
        return psycopg.connect(self.conninfo, password=token, autocommit=True)


def secured_postgres(directory: Path, *entries: str) -> SecuredPostgres:
    """The settings, with a new certificate and a file of tokens with these entries in the directory."""
    tokens, made, port = directory / "tokens.toml", certificate(directory), free_port()
    tokens.write_text("\n".join(entries))
    environment = {
        "DSMS_POSTGRES_PORT": str(port),
        "DSMS_TOKENS": str(tokens),
        "DSMS_TLS_CERT": str(made.certificate),
        "DSMS_TLS_KEY": str(made.key),
        "DSMS_PROBE_PORT": str(free_port()),
    }
    address = f"host=127.0.0.1 port={port} user=x dbname=dsms sslmode=verify-full sslrootcert={made.certificate}"
    return SecuredPostgres(environment, address)
