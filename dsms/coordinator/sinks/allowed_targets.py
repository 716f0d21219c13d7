"""Restricts the targets of sinks, because the coordinator writes to them with its own rights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from connectors.credentials.secrets import check_no_secret
from connectors.tables.sink_targets import DELTA, ICEBERG
from operators.core.errors import ConfigError, UserError
from operators.core.masking import masked

_WITHOUT = "dsms sink NAME TARGET needs no permission: it writes from your own machine"
_PATH = re.compile(r"[\w./~+-]*")
#: The characters of a directory of tables, which mean the same in a path and in the `file://` URL of libraries.
_TABLES = re.compile(r"[A-Za-z0-9_./~-]*")
#: A user, and a reference to the password. Other characters, such as ?, end the host for some programs.
_LOGIN = re.compile(r"(?:[\w.+-]|\$\{secret:[^{}]*\})*(?::\$\{secret:[^{}]*\})?")
_FILE_DATABASE = "sqlite"


@dataclass(frozen=True)
class Files:
    """A file or directory of the coordinator's machine."""

    path: Path


@dataclass(frozen=True)
class Remote:
    """A place that a URL names. `before` is its beginning up to `://`, with the kind of table. `login` is the user, and
    the reference to the password."""

    before: str
    login: str
    host: str
    path: str


@dataclass(frozen=True)
class AllowedTargets:
    """The prefixes that the operator allows: directories, and URLs.

    A directory allows all that is stored in files below it, after symbolic links are followed: Parquet files,
    `iceberg:DIRECTORY`, `delta:DIRECTORY` and `sqlite:///FILE`. A URL allows the targets with the same scheme and host
    whose path is equal or below, and if it names a user, the same user. A URL whose path has other characters than
    letters, digits and `_ . / ~ + -`, or that has a query, must be listed as a whole; so must a database without a host
    that is not sqlite, because its driver chooses the host.

    >>> allowed = AllowedTargets.of("/lake, delta:s3://lake/hot, postgresql://db/shop")
    >>> allowed.check("delta:/lake/a"), allowed.check("delta:s3://lake/hot/a"), allowed.check("postgresql://ann@db/shop")
    (None, None, None)
    >>> allowed.check("delta:s3://lake/hotter")
    Traceback (most recent call last):
    operators.core.errors.UserError: the target "delta:s3://lake/hotter" is not allowed; allowed: /lake, ...
    """

    prefixes: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> AllowedTargets:
        """The prefixes of a setting, separated by commas. Raises ConfigError for one that is not a prefix."""
        prefixes = tuple(part for each in text.split(",") if (part := each.strip()))
        for prefix in prefixes:
            try:
                check_no_secret(prefix, f'the allowed target "{masked(prefix)}"')
                _place_of_prefix(prefix)
            except UserError as error:
                raise ConfigError(error.message, hint=error.hint) from error
        return AllowedTargets(prefixes)

    def check(self, target: str) -> None:
        """Raises UserError for a target that is not allowed, or that has a password."""
        check_no_secret(target, "the target of a sink")
        if not self.prefixes:
            hint = (
                "the operator allows targets by starting the coordinator with --sinks PREFIX,… "
                f"(DSMS_SINKS; dsms up --sinks); {_WITHOUT}"
            )
            raise UserError("this coordinator may not write to other systems", hint=hint)
        if target in self.prefixes:
            return
        place = place_of(target)
        above = (_place_of_prefix(prefix) for prefix in self.prefixes)
        if not any(_below(place, each) for each in above if each is not None):
            hint = f"allowed: {', '.join(map(masked, self.prefixes))}; {_WITHOUT}"
            raise UserError(f'the target "{masked(target)}" is not allowed', hint=hint)


class _OnlyWhole(UserError):
    """A URL that programs might read differently: it is allowed only if it is listed as a whole."""


def _place_of_prefix(prefix: str) -> Files | Remote | None:
    """The place of a prefix; None for a URL that allows only itself."""
    try:
        return None if "?" in prefix else place_of(prefix)
    except _OnlyWhole:
        return None


def place_of(target: str) -> Files | Remote:
    """Where a target is. Raises UserError for a text that programs might read differently.

    >>> place_of("iceberg:/lake"), place_of("sqlite:////lake/a.db")
    (Files(path=PosixPath('/lake')), Files(path=PosixPath('/lake/a.db')))
    >>> place_of("delta:s3://lake/hot"), place_of("iceberg://prod")
    (Remote(before='delta:s3://', login='', host='lake', path='/hot'), Remote(before='iceberg://', ...))
    """
    if not target.isprintable() or "\\" in target:
        raise _unclear(target, "it has a backslash or a character that cannot be printed")
    kind = next((kind for kind in (ICEBERG, DELTA) if target.startswith(kind)), "")
    rest = target.removeprefix(kind)
    if kind == ICEBERG and rest.startswith("//"):
        return _remote(target, f"{kind}//", rest[2:])
    scheme, separator, after = rest.partition("://")
    if not separator:
        if kind and not _TABLES.fullmatch(rest):
            raise _unclear(target, "a directory of tables has only letters of ASCII, digits and _ . / ~ -")
        return _files(target, rest)
    if scheme.lower() == "file":
        raise _unclear(target, "write the path of the directory, without file://")
    if scheme.partition("+")[0] == _FILE_DATABASE and not kind and after.startswith("/"):
        return _files(target, after[1:])
    return _remote(target, f"{kind}{scheme}://", after)


def _files(target: str, text: str) -> Files:
    if any(each in text for each in "$?%"):  # SQLAlchemy reads %2e%2e as ..
        raise _unclear(target, "its path has one of the characters $ ? %")
    path = Path(text)
    if not path.is_absolute() or ".." in path.parts:
        raise _unclear(target, "give an absolute path without ..")
    try:
        return Files(path.resolve())
    except (OSError, RuntimeError) as error:
        raise _unclear(target, f"its path cannot be followed: {type(error).__name__}") from error


def _remote(target: str, before: str, after: str) -> Remote:
    authority, slash, path = after.partition("/")
    login, _, host = authority.rpartition("@")
    names = path.rstrip("/").split("/") if path.rstrip("/") else []
    if before.startswith((ICEBERG, DELTA)) and "@" in authority:
        raise _unclear(target, "a table has no user: credentials come from the environment")
    if before.startswith(ICEBERG) and slash:
        raise _unclear(target, "the name of a catalog has no path")
    if not _LOGIN.fullmatch(login) or not _PATH.fullmatch(path) or any(name in ("", ".", "..") for name in names):
        raise _only_whole(target)
    if not host or not re.fullmatch(r"[\w.:\[\]-]+", host):
        raise _only_whole(target)
    return Remote(before, login, host, slash + path)


def _below(place: Files | Remote, allowed: Files | Remote) -> bool:
    if isinstance(place, Files) or isinstance(allowed, Files):
        return isinstance(place, Files) and isinstance(allowed, Files) and place.path.is_relative_to(allowed.path)
    same = (place.before, place.host) == (allowed.before, allowed.host)
    same_user = allowed.login in ("", place.login, place.login.partition(":")[0])
    above = allowed.path.rstrip("/")
    return same and same_user and (place.path == above or place.path.startswith(f"{above}/") or not above)


def _only_whole(target: str) -> UserError:
    return _OnlyWhole(f'the target "{masked(target)}" is not allowed', hint="such a URL must be allowed as a whole")


def _unclear(target: str, why: str) -> UserError:
    return UserError(f'the target "{masked(target)}" is not allowed', hint=why)
