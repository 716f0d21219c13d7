"""Services as in a cluster: a connection to the address of a service reaches one of its ready pods."""

import socket
import socketserver
import threading
from contextlib import suppress

from integration.kube.addresses import on_this_machine
from integration.kube.api import Api, Document

_TURN_S = 0.3
_BYTES = 65536


class ServiceProxy:
    """Listens on the addresses of a namespace's services until it is stopped."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._servers: dict[tuple[str, int], socketserver.ThreadingTCPServer] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="services")
        self._thread.start()

    def stop(self) -> None:
        """Closes all listeners."""
        self._stopping.set()
        self._thread.join()
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def _run(self) -> None:
        while not self._stopping.wait(_TURN_S):
            for service in self._api.items(f"/api/v1/namespaces/{self._namespace}/services"):
                if service["spec"]["clusterIP"] != "None":
                    self._listen(service)

    def _listen(self, service: Document) -> None:
        for port in service["spec"]["ports"]:
            where = on_this_machine(service["spec"]["clusterIP"]), port["port"]
            if where not in self._servers:
                self._servers[where] = self._server(where, service["metadata"]["name"])

    def _server(self, where: tuple[str, int], name: str) -> socketserver.ThreadingTCPServer:
        api, namespace = self._api, self._namespace

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                ready = ready_endpoints(api, namespace, name)
                if not ready:
                    return
                with suppress(OSError), socket.create_connection(ready[0], 5) as pod:
                    pod.settimeout(None)
                    back = threading.Thread(target=_pump, args=(pod, self.request), daemon=True)
                    back.start()
                    _pump(self.request, pod)
                    back.join()

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            block_on_close = False

        server = Server(where, Handler)
        threading.Thread(target=server.serve_forever, name=f"service-{name}", daemon=True).start()
        return server


def ready_endpoints(api: Api, namespace: str, service: str) -> list[tuple[str, int]]:
    """The addresses, on this machine, of a service's ready pods, from its EndpointSlices."""
    selector = f"labelSelector=kubernetes.io/service-name={service}"
    slices = api.items(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}")
    return [
        (on_this_machine(address), port["port"])
        for endpoint_slice in slices
        for endpoint in endpoint_slice["endpoints"] or []
        if endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
        for port in endpoint_slice["ports"]
    ]


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Passes on all bytes and then the end of the stream."""
    with suppress(OSError):
        while data := source.recv(_BYTES):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
