"""A server in the driver that gives another process access to a fragment's batch planner.

Spark plans a source in a separate process. This process asks the server, so it needs neither the code nor the state of
the planner. Both processes are on one host and trust each other, because no other user can enter the directory of the
socket.

While there is nothing to read, the server itself asks the planner again and again and answers once something has come.
Otherwise each of these questions would take the way through Spark's JVM and its planning process.
"""

from __future__ import annotations

import pickle
import shutil
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from dsms.runtime.batching.planner import Calls
from operators.core.errors import DsmsError, InternalError

#: The question that is answered once the answer differs from its first argument, or after LONGEST_WAIT_S.
PATIENT = "latest"
LONGEST_WAIT_S = 1.0
#: The time between two looks for something new.
PAUSE_S = 0.04
log = structlog.get_logger()


class PlanServer:
    """Answers named questions, one at a time, until it is closed. The path of `directory` has at most 64 bytes.

    >>> from dsms.spark.plan_client import ask
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     server = PlanServer(Path(directory), {"twice": lambda number: 2 * number})
    ...     ask(server.address, "twice", 21)
    ...     server.close()
    42
    """

    def __init__(self, directory: Path, calls: Calls) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="plans-", dir=directory))
        self.address = str(self._directory / "socket")
        self._server = _Server(self.address, calls)
        threading.Thread(target=self._server.serve_forever, name="plans", daemon=True).start()

    def stop_waiting(self) -> None:
        """From now on, answers at once also if there is nothing new."""
        self._server.hurried.set()

    def close(self) -> None:
        """Stops answering. It does not wait for an answer in progress, which may be waiting for Kafka."""
        self.stop_waiting()
        threading.Thread(target=self._end, name="closing-plans", daemon=True).start()

    def _end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._directory, ignore_errors=True)  # the scratch directory may be gone already


class _Server(socketserver.UnixStreamServer):
    def __init__(self, address: str, calls: Calls) -> None:
        super().__init__(address, _Question)
        self.calls = calls
        self.hurried = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Logs the error only at debug level, because the client may end before it is answered."""
        log.debug("a client closed the connection before its answer", exc_info=True)


class _Question(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        question, arguments = pickle.load(self.rfile)
        pickle.dump(self._answer(question, arguments), self.wfile)

    def _answer(self, question: str, arguments: tuple[object, ...]) -> object:
        """The answer, or an error that the client raises; otherwise the client would see only a closed connection."""
        try:
            call = self.server.calls[question]
            return self._awaited(call, arguments) if question == PATIENT else call(*arguments)
        except DsmsError as error:
            return error
        except Exception as error:
            log.exception("planning failed")
            return InternalError(f"planning failed: {type(error).__name__}: {error}")

    def _awaited(self, call: Callable[..., Any], arguments: tuple[object, ...]) -> object:
        """The first answer that differs from the first argument; after `LONGEST_WAIT_S`, that argument."""
        ended = time.monotonic() + LONGEST_WAIT_S
        while (answer := call(*arguments)) == arguments[0]:
            if self.server.hurried.wait(PAUSE_S) or time.monotonic() > ended:
                break
        return answer
