"""TLS settings of clients of the coordinator: the authority that they trust and the certificate that they present."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from operators.core.errors import ConfigError

AUTHORITY, CERTIFICATE, KEY = "DSMS_TLS_CA", "DSMS_TLS_CLIENT_CERT", "DSMS_TLS_CLIENT_KEY"


@dataclass(frozen=True)
class ClientTls:
    """Three files: the authority that signs the coordinator's certificate, and the client's certificate with its key.

    If `authority` is None, the client trusts the authorities of the system, or those in the file `SSL_CERT_FILE`.
    Raises ConfigError if only one of `certificate` and `key` is set.

    >>> ClientTls.of({"DSMS_TLS_CLIENT_CERT": "client.pem"})
    Traceback (most recent call last):
    operators.core.errors.ConfigError: only one of DSMS_TLS_CLIENT_CERT and DSMS_TLS_CLIENT_KEY is set; ...
    """

    authority: str | None = None
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError(f"only one of {CERTIFICATE} and {KEY} is set", hint="set both or neither")

    @staticmethod
    def of(environ: Mapping[str, str]) -> ClientTls:
        """The files that the environment names."""
        return ClientTls(*(environ.get(name) or None for name in (AUTHORITY, CERTIFICATE, KEY)))

    def context(self) -> ssl.SSLContext | None:
        """The context for connections; None, for the default context of the HTTP library, if no file is set. Raises
        ConfigError if a file cannot be loaded.
        """
        if self == ClientTls():
            return None
        try:
            context = ssl.create_default_context(cafile=self.authority)
            if self.certificate and self.key:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:  # ssl.SSLError is a subclass
            files = ", ".join(f'"{file}"' for file in (self.authority, self.certificate, self.key) if file)
            raise ConfigError(f"cannot load the certificates or the key from {files}: {error}") from error
        return context
