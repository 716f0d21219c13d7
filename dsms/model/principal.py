"""The identity and permissions of a caller: an immutable value that is passed along with a call, across threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from dsms.model.roles import Role
from operators.core.errors import ConfigError, UserError


class Forbidden(UserError):
    """The caller's token does not permit the operation."""


@dataclass(frozen=True)
class NamePatterns:
    """A set of names: each pattern is a name, or a prefix of names followed by `*`.

    >>> some = NamePatterns(("orders", "ann_*"))
    >>> "orders" in some, "orders2" in some, "ann_hot" in some, "ann" in some
    (True, False, True, False)
    >>> NamePatterns(("a*b",))
    Traceback (most recent call last):
    operators.core.errors.ConfigError: "a*b" is not a pattern of names; give a name, or a prefix followed by "*"
    """

    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            if not pattern or "*" in pattern[:-1]:
                hint = 'give a name, or a prefix followed by "*"'
                raise ConfigError(f'"{pattern}" is not a pattern of names', hint=hint)

    def __contains__(self, name: str) -> bool:
        return name in self._names or name.startswith(self._prefixes)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(pattern for pattern in self.patterns if not pattern.endswith("*"))

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(pattern[:-1] for pattern in self.patterns if pattern.endswith("*"))


@dataclass(frozen=True)
class AccessRules:
    """The objects and topics to which a token gives access. Permission to write includes permission to read. Access to
    names that match no pattern is denied. Names of objects are case-insensitive, names of topics are not.

    >>> rules = AccessRules.of(read=["Orders"], write=["ann_*"])
    >>> rules.read("ORDERS"), rules.write("orders"), rules.read("Ann_hot"), rules.read_topic("orders")
    (True, False, True, False)
    """

    readable: NamePatterns = NamePatterns()
    writable: NamePatterns = NamePatterns()
    readable_topics: NamePatterns = NamePatterns()
    writable_topics: NamePatterns = NamePatterns()

    @staticmethod
    def of(
        read: Iterable[str] = (),
        write: Iterable[str] = (),
        read_topics: Iterable[str] = (),
        write_topics: Iterable[str] = (),
    ) -> AccessRules:
        """The rules with these patterns of objects and of topics."""
        return AccessRules(
            NamePatterns(tuple(pattern.lower() for pattern in read)),
            NamePatterns(tuple(pattern.lower() for pattern in write)),
            NamePatterns(tuple(read_topics)),
            NamePatterns(tuple(write_topics)),
        )

    def read(self, name: str) -> bool:
        """Whether the object may be read."""
        return name.lower() in self.readable or self.write(name)

    def write(self, name: str) -> bool:
        """Whether the object may be created, changed or dropped."""
        return name.lower() in self.writable

    def read_topic(self, topic: str) -> bool:
        """Whether sources may be registered over the topic."""
        return topic in self.readable_topics or self.write_topic(topic)

    def write_topic(self, topic: str) -> bool:
        """Whether records may be published to the topic, and a new table or query may use it."""
        return topic in self.writable_topics


@dataclass(frozen=True)
class TokenLimits:
    """The limits of a token; None means the coordinator's limit for all tokens."""

    calls_per_second: float | None = None
    queries: int | None = None
    streams: int | None = None


@dataclass(frozen=True)
class Principal:
    """A caller, by the name of its token. Without rules it may do everything that its role allows.

    >>> Principal("ann", "reader", AccessRules.of(read=["orders"])).check_read("secret")
    Traceback (most recent call last):
    dsms.model.principal.Forbidden: token "ann" may not read "secret"; an administrator can add it to its rules
    """

    name: str
    role: Role
    rules: AccessRules | None = None
    limits: TokenLimits = field(default_factory=TokenLimits)
    #: The time at which the token expires, in seconds since 1970; None: never.
    until: float | None = None

    @property
    def restricted(self) -> bool:
        """Whether rules restrict which names it may use."""
        return self.rules is not None

    def may_read(self, name: str) -> bool:
        """Whether it may read the object."""
        return self.rules is None or self.rules.read(name)

    def check_read(self, name: str) -> None:
        """Raises Forbidden unless it may read the object. The error is the same if the object does not exist."""
        if not self.may_read(name):
            raise self._forbidden("read", f'"{name}"')

    def check_write(self, name: str) -> None:
        """Raises Forbidden unless it may create, change and drop an object of this name."""
        if self.rules is not None and not self.rules.write(name):
            raise self._forbidden("write", f'"{name}"')

    def may_read_topic(self, topic: str) -> bool:
        """Whether it may read the topic."""
        return self.rules is None or self.rules.read_topic(topic)

    def check_read_topic(self, topic: str) -> None:
        """Raises Forbidden unless it may read the topic."""
        if not self.may_read_topic(topic):
            raise self._forbidden("read", f'topic "{topic}"')

    def check_write_topic(self, topic: str) -> None:
        """Raises Forbidden unless it may write the topic."""
        if self.rules is not None and not self.rules.write_topic(topic):
            raise self._forbidden("write", f'topic "{topic}"')

    def check_unrestricted(self, what: str) -> None:
        """Raises Forbidden if rules restrict which names it may use."""
        if self.rules is not None:
            raise Forbidden(f'token "{self.name}" has rules, so it may not {what}', hint="use a token without rules")

    def _forbidden(self, verb: str, what: str) -> Forbidden:
        return Forbidden(f'token "{self.name}" may not {verb} {what}', hint="an administrator can add it to its rules")


@dataclass(frozen=True)
class Caller:
    """The principal of one call, the call's id in the log and the audit log, and for how many seconds its statements
    wait for results that have no final instant yet."""

    principal: Principal
    request_id: str = ""
    wait_s: float = 0.0


#: The caller of every call if the coordinator has no tokens.
ANYBODY = Caller(Principal("anybody", "administrator"))
