"""One pod of one container as a process of this machine: started, probed, started again, stopped, or done."""

import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from dsms.local.process import ManagedProcess, ProcessSpec
from integration.kube.addresses import new_pod_address, on_this_machine
from integration.kube.api import Api, Document
from integration.kube.environment import environment_of, expanded
from integration.kube.image import Image
from integration.kube.probes import Probe, probe
from integration.kube.sandbox import Bind, Sandbox
from integration.kube.volumes import fill

_TURN_S = 0.1
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 10.0, 300.0


class PodRunner:
    """Runs a pod in a thread of its own until the pod is deleted."""

    def __init__(self, pod: Document, api: Api, image: Image, hosts: str, directory: Path) -> None:
        self.pod, self._api, self._image, self._hosts, self.directory = pod, api, image, hosts, directory
        self.address = new_pod_address()
        self.restarts = 0
        self._container = pod["spec"]["containers"][0]
        assert len(pod["spec"]["containers"]) == 1, "only pods with one container are supported"
        assert not pod["spec"].get("initContainers")
        self._process: ManagedProcess | None = None
        self._start_at, self._started_at = 0.0, ""
        self._probes: dict[str, Probe | None] = {}
        self._said: Document | None = None
        #: "Succeeded" or "Failed" once the pod is not started again.
        self.outcome = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pod-{self.name}")
        self._thread.start()

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.pod["metadata"]["name"]

    @property
    def pid(self) -> int | None:
        """The process id of the container; None while none is running."""
        return None if self._process is None else self._process.pid

    def log(self) -> str:
        """The output of the container."""
        file = self.directory / "log"
        return file.read_text(errors="replace") if file.exists() else ""

    def stop(self) -> None:
        """Terminates the process, waits for its end, and removes the pod's volumes."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        self._make_volumes()
        try:
            while not self._stopping.wait(_TURN_S):
                self._turn()
        finally:
            if self._process is not None:
                self._process.stop()
            shutil.rmtree(self.directory / "volumes", ignore_errors=True)

    def _turn(self) -> None:
        """Checks once whether the process lives and passes its probes."""
        if self.outcome:
            return
        if self._process is None or not self._process.alive:
            self._end_or_restart()
            return
        startup = self._probes["startup"]
        started = startup is None or startup.passed is True or startup.probe_if_due() is True
        if started:
            live, ready = self._look("liveness"), self._look("readiness")
            self._report_status(ready=ready is True, started=True)
        else:
            live = startup is None or startup.passed is not False
            self._report_status(ready=False, started=False)
        if live is False:
            self._process.stop()

    def _look(self, kind: str) -> bool | None:
        probe = self._probes[kind]
        return True if probe is None else probe.probe_if_due()

    def _end_or_restart(self) -> None:
        """Starts an ended container again, unless the restart policy of the pod says otherwise."""
        policy, code = self.pod["spec"]["restartPolicy"], None if self._process is None else self._process.exit_code
        if code is not None and (policy == "Never" or (policy == "OnFailure" and code == 0)):
            self.outcome = "Failed" if code else "Succeeded"
            self._report_status(ready=False, started=False)
        else:
            self._restart()

    def _restart(self) -> None:
        """Starts the container; again at once after the first end, then after pauses that double."""
        now = time.monotonic()
        if self._process is not None and self._start_at <= 0:
            self._process.kill()
            pause = 0.0 if self.restarts == 0 else _FIRST_BACKOFF_S * 2 ** (self.restarts - 1)
            self._start_at = now + min(pause, _LONGEST_BACKOFF_S)
            self.restarts += 1
            self._report_status(ready=False, started=False)
        if now >= self._start_at:
            self._start_at = 0.0
            self._start()

    def _start(self) -> None:
        local = on_this_machine(self.address)
        container, sandbox = self._container, self._sandbox()
        env = {
            **self._image.environment(),
            **environment_of(container, self.pod, local, self._api, self._api_environment()),
        }  # fmt: skip
        argv = [expanded(word, env) for word in (*container["command"], *container.get("args", []))]
        command = sandbox.command(argv, "/")
        spec = ProcessSpec(
            self.name, command, self.directory / "log", lambda: True, env,
            stop_timeout_s=self.pod["spec"]["terminationGracePeriodSeconds"],
        )  # fmt: skip
        self._probes = {kind: probe(container, kind, local) for kind in ("startup", "liveness", "readiness")}
        self._process = ManagedProcess(spec)
        self._process.start()
        self._started_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _make_volumes(self) -> None:
        for volume in self.pod["spec"].get("volumes", []):
            fill(volume, self.directory / "volumes" / volume["name"], self.pod, self._api)
        own = f"{on_this_machine(self.address)} {self.name}\n"
        (self.directory / "hosts").write_text(f"127.0.0.1 localhost\n{own}{self._hosts}")

    def _sandbox(self) -> Sandbox:
        """A sandbox with the image and the mounted volumes; nothing else is writable."""
        mounts = [
            Bind(
                self.directory / "volumes" / mount["name"],
                mount["mountPath"],
                writable=not mount.get("readOnly", False),
            )
            for mount in self._container.get("volumeMounts", [])
        ]
        hosts = Bind(self.directory / "hosts", "/etc/hosts")
        writable = not self._container["securityContext"]["readOnlyRootFilesystem"]
        sandbox = Sandbox(self.directory / "root", (*self._image.binds(), hosts, *mounts), writable, self.name)
        sandbox.prepare()
        return sandbox

    def _api_environment(self) -> dict[str, str]:
        host, _, port = self._api.url.removeprefix("https://").partition(":")
        return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}

    def _report_status(self, *, ready: bool, started: bool) -> None:
        """Reports the status if it has changed."""
        alive = self._process is not None and self._process.alive
        state = {"running": {"startedAt": self._started_at}} if alive else {"waiting": {"reason": "CrashLoopBackOff"}}
        if self.outcome:
            reason, code = ("Completed", 0) if self.outcome == "Succeeded" else ("Error", 1)
            state = {"terminated": {"exitCode": code, "reason": reason}}
        conditions = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
        status = {
            "phase": self.outcome or "Running",
            "podIP": self.address, "podIPs": [{"ip": self.address}], "hostIP": "10.0.0.1",
            "hostIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": kind, "status": str(value)} for kind, value in conditions.items()],
            "containerStatuses": [{
                "name": self._container["name"], "image": self._container["image"], "imageID": "", "ready": ready,
                "started": started, "restartCount": self.restarts, "state": state,
            }],
        }  # fmt: skip
        if status != self._said:
            path = f"/api/v1/namespaces/{self.pod['metadata']['namespace']}/pods/{self.name}/status"
            self._api.patch(path, {"status": status})
            self._said = status
