"""References to secrets. Only the name of a secret is written, sent, stored and shown; the process that uses the value
looks it up.

A text refers to a secret by `${secret:NAME}`, as Kafka's own configuration does. Its value is in the environment of the
process that uses it: in the variable `DSMS_SECRET_NAME`, in the file that `DSMS_SECRET_NAME_FILE` names, or in the file
`NAME` of the directory `DSMS_SECRETS_DIR`, such as a mounted Kubernetes Secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from operators.core.errors import ConfigError, UserError
from operators.core.masking import MASK, masked

_REFERENCE = re.compile(r"\$\{secret:(?P<name>[^}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PREFIX, _DIRECTORY, _FILE = "DSMS_SECRET_", "DSMS_SECRETS_DIR", "_FILE"
#: Settings of the project's programs that may hold a secret. The variable NAME_FILE names a file with the value of
#: NAME.
IN_FILES = ("DSMS_REDIS", "DSMS_REGISTRY", "DSMS_TOKEN")


class NoSecret(UserError):
    """A reference contains an invalid name, or the name of a secret that this process does not have."""


def references(text: str) -> tuple[str, ...]:
    """The names of the secrets that a text refers to.

    >>> references("http://ann:${secret:registry}@host:8081")
    ('registry',)
    """
    return tuple(found["name"] for found in _REFERENCE.finditer(text))


def resolved(text: str, environ: Mapping[str, str]) -> str:
    """Replaces each reference by the secret's value. Raises NoSecret if this process does not have the secret.

    >>> resolved("k=${secret:my-key}", {"DSMS_SECRET_MY_KEY": "4711"})
    'k=4711'
    """
    return _REFERENCE.sub(lambda found: _value(found["name"], environ), text)


def resolved_url(url: str, environ: Mapping[str, str]) -> str:
    """Replaces each reference in a URL by the secret's value. Raises NoSecret if this process does not have the secret.

    The value is escaped, because a password may contain any character. It is not escaped if the reference is the whole
    URL.

    >>> resolved_url("http://ann:${secret:p}@host", {"DSMS_SECRET_P": "a/b@c"})
    'http://ann:a%2Fb%40c@host'
    >>> resolved_url("${secret:p}", {"DSMS_SECRET_P": "http://host"})
    'http://host'
    """
    if _REFERENCE.fullmatch(url):
        return resolved(url, environ)
    return _REFERENCE.sub(lambda found: quote(_value(found["name"], environ), safe=""), url)


def without_secrets(message: str, text: str, environ: Mapping[str, str]) -> str:
    """The message, in which the values of the secrets to which a text refers are masked: as they are, and URL-encoded.

    >>> without_secrets('no user "a/b" at a%2Fb@host', "http://${secret:u}@host", {"DSMS_SECRET_U": "a/b"})
    'no user "***" at ***@host'
    """
    for name in references(text):
        with suppress(NoSecret, ConfigError):  # a secret that cannot be looked up is in no message
            if value := _value(name, environ):
                message = message.replace(value, MASK).replace(quote(value, safe=""), MASK)
    return message


def check_no_secret(text: str, what: str) -> None:
    """Raises UserError if a text contains a password instead of a reference; `what` names the text in the message.

    >>> check_no_secret("http://ann:${secret:p}@host", "REGISTRY")
    >>> check_no_secret("http://ann:4711@host", "REGISTRY")
    Traceback (most recent call last):
    operators.core.errors.UserError: REGISTRY must not contain a password, because it would be stored and shown; ...
    """
    if _holds_password(text):
        hint = "write ${secret:NAME} in its place, and give the value to the coordinator as DSMS_SECRET_NAME"
        raise UserError(f"{what} must not contain a password, because it would be stored and shown", hint=hint)


def from_files(environ: Mapping[str, str], names: Iterable[str] = IN_FILES) -> dict[str, str]:
    """Reads the variables whose values are in files, such as DSMS_REDIS from the file that DSMS_REDIS_FILE names.

    Raises ConfigError if both variables are set.

    >>> from_files({"DSMS_REDIS": "redis://host"})
    {}
    """
    found: dict[str, str] = {}
    for name in names:
        if (file := environ.get(name + _FILE)) is not None:
            if name in environ:
                raise ConfigError(f'both "{name}" and "{name}{_FILE}" are set', hint="set one of them")
            found[name] = secret_file(Path(file))
    return found


def take_files(environ: MutableMapping[str, str]) -> None:
    """Replaces each variable NAME_FILE by NAME with the contents of the file, for this process and its children."""
    for name, value in from_files(environ).items():
        environ[name] = value
        del environ[name + _FILE]


def check_arguments(arguments: Iterable[str]) -> None:
    """Raises ConfigError if a command line contains a password: every user of the machine can read command lines.

    >>> check_arguments(["--redis", "redis://:4711@host"])
    Traceback (most recent call last):
    operators.core.errors.ConfigError: the command line contains a password, and everybody on the machine can read ...
    """
    for argument in arguments:
        if _holds_password(argument):
            hint = (
                "set the option's environment variable (such as DSMS_REDIS or DSMS_REDIS_FILE), or write ${secret:NAME}"
            )
            raise ConfigError(
                "the command line contains a password, and everybody on the machine can read it", hint=hint
            )


def secret_file(file: Path) -> str:
    """The text of a file without trailing line breaks. Raises ConfigError if the file cannot be read."""
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'cannot read the secret in "{file}": {type(error).__name__}') from error


def _holds_password(text: str) -> bool:
    """Whether a text contains a password that is not a reference."""
    without = _REFERENCE.sub(MASK, text)
    return masked(without) != without


def _value(name: str, environ: Mapping[str, str]) -> str:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, _, - and ., and begin with a letter or a digit"
        raise NoSecret(f'"{name}" is not the name of a secret', hint=hint)
    variable = _PREFIX + re.sub(r"[.-]", "_", name).upper()
    if variable in environ:
        return environ[variable]
    if variable + _FILE in environ:
        return secret_file(Path(environ[variable + _FILE]))
    if _DIRECTORY in environ and (file := Path(environ[_DIRECTORY], name)).is_file():
        return secret_file(file)
    hint = f"set {variable}, {variable}{_FILE}, or {_DIRECTORY} where it is used: coordinator, executors, clients"
    raise NoSecret(f'secret "{name}" not found in this process', hint=hint)
