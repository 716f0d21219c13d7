"""Translates the Kubernetes client's errors into this project's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from operators.core.errors import ConfigError, ExternalError

NOT_FOUND, CONFLICT = 404, 409
_UNAUTHORIZED, _FORBIDDEN, _INVALID = 401, 403, 422


class Conflict(ExternalError):
    """Another client has changed the object in the meantime; nothing was written."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises this project's errors in place of the client's."""
    try:
        yield
    except ApiException as error:
        raise _translate(error, doing) from error
    except HTTPError as error:
        raise ExternalError(f"cannot reach kubernetes while {doing}: {error}") from error
    except ConfigException as error:
        raise ConfigError(
            f"no usable kubernetes configuration: {error}", hint="run this in a pod, or set KUBECONFIG"
        ) from error


def _translate(error: ApiException, doing: str) -> ExternalError:
    if error.status == CONFLICT:
        return Conflict(f"another client changed the object while {doing}")
    if error.status in (_UNAUTHORIZED, _FORBIDDEN):
        hint = "the service account needs the permissions get and update on the object"
        return ExternalError(f"kubernetes refused {doing}: {error.reason}", hint=hint)
    retryable = error.status != _INVALID
    return ExternalError(f"kubernetes failed while {doing}: {error.status} {error.reason}", retryable=retryable)
