"""Restricts the schema registries that statements of writers may name, because executors send requests to them."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.kafka.schema_registry.registry import place_of
from dsms.model.principal import Forbidden
from dsms.model.roles import Role, allows


@dataclass(frozen=True)
class RegistryHosts:
    """Patterns of hosts, `HOST` or `HOST:PORT`, where `*.` at the beginning matches any subdomain; None allows every
    host. The patterns do not restrict administrators.

    >>> hosts = RegistryHosts.of("registry:8081, *.example.org")
    >>> hosts.check("http://registry:8081/x", "writer"), hosts.check("https://a.example.org", "writer")
    (None, None)
    >>> hosts.check("http://metadata.internal", "writer")
    Traceback (most recent call last):
    dsms.model.principal.Forbidden: REGISTRY may not name "metadata.internal:80"; allowed: registry:8081, *.example.org
    """

    patterns: tuple[str, ...] | None = None

    @staticmethod
    def of(text: str) -> RegistryHosts:
        """The patterns of a setting, separated by spaces or commas; an empty setting allows every host."""
        return RegistryHosts(tuple(text.lower().replace(",", " ").split()) or None)

    def check(self, url: str, role: Role) -> None:
        """Raises Forbidden for a registry that a statement by a caller of this role may not name."""
        if self.patterns is None or allows(role, "administrator"):
            return
        host, port = place_of(url)
        if not any(_matches(pattern, host, port) for pattern in self.patterns):
            hint = f"allowed: {', '.join(self.patterns)}"
            raise Forbidden(f'REGISTRY may not name "{host}:{port}"', hint=hint)


def _matches(pattern: str, host: str, port: int) -> bool:
    """Whether a host and port match a pattern.

    >>> _matches("registry", "registry", 9), _matches("registry:8", "registry", 9), _matches("*.a.b", "a.b", 1)
    (True, False, False)
    >>> _matches("[::1]:8081", "[::1]", 8081), _matches("*.a.b:80", "evil.com#.a.b", 81)
    (True, False)
    """
    name, colon, number = pattern.rpartition(":")
    if not colon or not number.isdecimal():
        name, number = pattern, str(port)
    fits = host.endswith(name[1:]) if name.startswith("*.") else host == name
    return fits and number == str(port)
