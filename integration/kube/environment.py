"""The environment of a container, from its description and the objects it refers to."""

import base64
import re
from collections.abc import Callable

from integration.kube.api import Api, Document

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def environment_of(
    container: Document, pod: Document, address: str, api: Api, services: dict[str, str]
) -> dict[str, str]:
    """The variables of a container, in order, after those of services; $(NAME) refers to an earlier one."""
    values = dict(services)
    for variable in container.get("env", []):
        given = (
            _from(variable["valueFrom"], pod, address, api) if "valueFrom" in variable else variable.get("value", "")
        )
        values[variable["name"]] = given if "valueFrom" in variable else expanded(given, values)
    return values


def expanded(text: str, known: dict[str, str]) -> str:
    """The text with references to known variables replaced; other references stay.

    >>> expanded("http://$(HOST):$(PORT)", {"HOST": "a"})
    'http://a:$(PORT)'
    """
    return _REFERENCE.sub(lambda match: known.get(match[1], match[0]), text)


def secret_value(api: Api, namespace: str, name: str, key: str) -> bytes:
    """One value of a Secret."""
    return base64.b64decode(api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")["data"][key])


def field(pod: Document, path: str, address: str) -> str:
    """A field of the pod, as fieldRef names it."""
    fields: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: pod["metadata"]["name"],
        "metadata.namespace": lambda: pod["metadata"]["namespace"],
        "metadata.uid": lambda: pod["metadata"]["uid"],
        "spec.nodeName": lambda: pod["spec"]["nodeName"],
        "status.podIP": lambda: address,
    }
    return fields[path]()


def _from(reference: Document, pod: Document, address: str, api: Api) -> str:
    (kind, what), namespace = next(iter(reference.items())), pod["metadata"]["namespace"]
    if kind == "fieldRef":
        return field(pod, what["fieldPath"], address)
    if kind == "secretKeyRef":
        return secret_value(api, namespace, what["name"], what["key"]).decode()
    assert kind == "configMapKeyRef", f"not supported: {kind}"
    return api.get(f"/api/v1/namespaces/{namespace}/configmaps/{what['name']}")["data"][what["key"]]
