"""The volumes of a pod as directories, filled as the kubelet fills them."""

import base64
from pathlib import Path

from integration.kube.api import Api, Document
from integration.kube.environment import field


def fill(volume: Document, directory: Path, pod: Document, api: Api) -> None:
    """Creates one volume; empty volumes and claims are empty directories."""
    directory.mkdir(parents=True)
    if "secret" in volume:
        source = volume["secret"]
        _write(directory, _secret(api, pod, source["secretName"]), source.get("items"), source.get("defaultMode"))
    elif "configMap" in volume:
        source = volume["configMap"]
        _write(directory, _config(api, pod, source["name"]), source.get("items"), source.get("defaultMode"))
    elif "projected" in volume:
        for source in volume["projected"]["sources"]:
            _project(source, directory, pod, api)
    else:
        assert {"emptyDir", "persistentVolumeClaim"} & volume.keys(), f"not supported: {volume}"
        directory.chmod(0o1777)


def _project(source: Document, directory: Path, pod: Document, api: Api) -> None:
    (kind, what) = next(iter(source.items()))
    if kind == "serviceAccountToken":
        (directory / what["path"]).write_text(_token(what, pod, api))
    elif kind == "configMap":
        _write(directory, _config(api, pod, what["name"]), what.get("items"), None)
    else:
        assert kind == "downwardAPI", f"not supported: {kind}"
        for item in what["items"]:
            (directory / item["path"]).write_text(field(pod, item["fieldRef"]["fieldPath"], ""))


def _token(what: Document, pod: Document, api: Api) -> str:
    """A token that is valid as long as the pod exists."""
    namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    spec = {"expirationSeconds": what.get("expirationSeconds", 3600), "boundObjectRef": bound, "audiences": []}
    answer = api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", {"spec": spec})
    return answer["status"]["token"]


def _secret(api: Api, pod: Document, name: str) -> dict[str, bytes]:
    secret = api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{name}")
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


def _config(api: Api, pod: Document, name: str) -> dict[str, bytes]:
    config_map = api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps/{name}")
    return {key: value.encode() for key, value in config_map["data"].items()}


def _write(directory: Path, content: dict[str, bytes], items: list[Document] | None, mode: int | None) -> None:
    wanted = items or [{"key": key, "path": key} for key in content]
    for item in wanted:
        file = directory / item["path"]
        file.write_bytes(content[item["key"]])
        file.chmod(mode or 0o644)
