"""A small kubelet, and scheduler: binds pods to the one node, runs them, and removes those that were deleted."""

import threading
from collections.abc import Mapping
from pathlib import Path

from integration.kube.addresses import on_this_machine
from integration.kube.api import Api, Document
from integration.kube.image import Image
from integration.kube.pod_runner import PodRunner

NODE = "this-machine"
_TURN_S = 0.2


class Kubelet:
    """Runs the pods of a cluster until it is stopped; afterwards no process of a pod is left."""

    def __init__(self, api: Api, images: Mapping[str, Image], directory: Path) -> None:
        self._api, self._images, self._directory = api, images, directory
        self.pods: dict[str, PodRunner] = {}
        self._ends: list[threading.Thread] = []
        self._stopping = threading.Event()
        api.create("/api/v1/nodes", {"metadata": {"name": NODE}})
        self._thread = threading.Thread(target=self._run, name="kubelet")
        self._thread.start()

    def pod(self, name: str) -> PodRunner:
        """The pod with a name."""
        return next(pod for pod in list(self.pods.values()) if pod.name == name)

    def stop(self) -> None:
        """Stops all pods in parallel."""
        self._stopping.set()
        self._thread.join()
        for pod in self.pods.values():
            self._end(pod)
        for end in self._ends:
            end.join()

    def logs(self) -> str:
        """The last lines of all logs, for messages of failing tests."""
        return "\n".join(f"== {pod.name} ({pod.restarts} restarts)\n{pod.log()[-3000:]}" for pod in self.pods.values())

    def _run(self) -> None:
        while not self._stopping.wait(_TURN_S):
            pods = {pod["metadata"]["uid"]: pod for pod in self._api.items("/api/v1/pods")}
            for uid, pod in pods.items():
                self._handle(uid, pod)
            for uid in self.pods.keys() - pods.keys():
                self._end(self.pods.pop(uid))

    def _handle(self, uid: str, pod: Document) -> None:
        """Starts, binds or ends one pod, as its document asks."""
        if "deletionTimestamp" in pod["metadata"]:
            if uid in self.pods:
                self._end(self.pods.pop(uid))
            elif not any(end.name == uid and end.is_alive() for end in self._ends):
                self._api.delete(_path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
        elif "nodeName" not in pod["spec"]:
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            self._api.create(f"{_path(pod)}/binding", {"metadata": {"name": pod["metadata"]["name"]}, "target": target})
        elif uid not in self.pods and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            directory = self._directory / f"{pod['metadata']['name']}-{uid[:8]}"
            self.pods[uid] = PodRunner(pod, self._api, self._image(pod), self._hosts(pod), directory)

    def _image(self, pod: Document) -> Image:
        repository, _, _ = pod["spec"]["containers"][0]["image"].partition(":")
        return self._images[repository]

    def _end(self, pod: PodRunner) -> None:
        """Ends a pod in a thread of its own, since that may take long."""
        end = threading.Thread(target=pod.stop, name=pod.pod["metadata"]["uid"])
        self._ends.append(end)
        end.start()

    def _hosts(self, pod: Document) -> str:
        """The names and addresses of services, as in the DNS of a cluster."""
        namespace = pod["metadata"]["namespace"]
        services = self._api.items(f"/api/v1/namespaces/{namespace}/services")
        known = [(service["spec"]["clusterIP"], service["metadata"]["name"]) for service in services]
        return "".join(
            f"{on_this_machine(address)} {name} {name}.{namespace} {name}.{namespace}.svc\n"
            for address, name in known
            if address != "None"
        )


def _path(pod: Document) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
