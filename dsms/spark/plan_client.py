"""The client of the plan server: Spark's planning process uses it to ask the driver over a socket.

The process lives as long as the stream and needs no other code, so this module imports nothing else.
"""

from __future__ import annotations

import pickle
import socket
from typing import Any

from operators.core.errors import DsmsError


def ask(address: str, question: str, *arguments: object) -> Any:
    """The answer of the planner at an address. If the answer is a DsmsError, raises it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rwb") as stream:
            pickle.dump((question, arguments), stream)
            stream.flush()
            answer = pickle.load(stream)
    if isinstance(answer, DsmsError):
        raise answer
    return answer
