"""How the process in which Spark asks a source for plans gets them: from the driver, over a socket.

It lives as long as a stream and needs no more than this, so nothing else is imported here.
"""

from __future__ import annotations

import pickle
import socket
from typing import Any

from operators.core.errors import DsmsError


def ask(address: str, question: str, *arguments: object) -> Any:
    """What the planner at an address answers; raises what it raised."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rwb") as stream:
            pickle.dump((question, arguments), stream)
            stream.flush()
            answer = pickle.load(stream)
    if isinstance(answer, DsmsError):
        raise answer
    return answer
