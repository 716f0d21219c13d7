"""The client of the plan server, for the process in which Spark asks a source for plans: it asks the driver over a
socket.

That process lives as long as the stream and needs no more than this, so nothing else is imported here.
"""

from __future__ import annotations

import pickle
import socket
from typing import Any

from operators.core.errors import DsmsError


def ask(address: str, question: str, *arguments: object) -> Any:
    """The answer of the planner at an address; raises the error that it answers with."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rwb") as stream:
            pickle.dump((question, arguments), stream)
            stream.flush()
            answer = pickle.load(stream)
    if isinstance(answer, DsmsError):
        raise answer
    return answer
