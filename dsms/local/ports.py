"""Finds free TCP ports of this machine, and names the process that listens on a taken one.

Free ports are below the range that the kernel uses for outgoing connections. Otherwise a client that tries to reach a
stopped server could get the server's port for its own end of the connection.
"""

import itertools
import random
import socket
from contextlib import suppress

import psutil

from operators.core.errors import ConfigError

FREE_RANGE = range(20_000, 32_000)
#: Ports are returned in turn, because a returned port may have no listener yet when the next one is requested.
_UNTRIED = itertools.cycle(random.SystemRandom().sample(FREE_RANGE, len(FREE_RANGE)))


def port_free(host: str, port: int) -> bool:
    """Whether a server could listen on this port.

    >>> with socket.create_server(("127.0.0.1", 0)) as server:
    ...     port_free("127.0.0.1", server.getsockname()[1])
    False
    """
    try:
        with socket.create_server((host, port)):
            return True
    except OSError:
        return False


def free_port(host: str = "127.0.0.1") -> int:
    """A port that no process listens on, another one with each call.

    >>> free_port() in FREE_RANGE
    True
    """
    for port in itertools.islice(_UNTRIED, 200):
        if port_free(host, port):
            return port
    tried = f"tried 200 ports between {FREE_RANGE.start} and {FREE_RANGE.stop - 1}"
    raise ConfigError(f'found no free port on "{host}"', hint=tried)


def claim_port(host: str, port: int, option: str) -> int:
    """The port itself if it is free, or any free port for 0. Raises ConfigError, with the process that listens on the
    port, if it is in use.

    >>> claim_port("127.0.0.1", 0, "kafka_port") > 0
    True
    """
    if port == 0:
        return free_port(host)
    if not port_free(host, port):
        raise ConfigError(
            f'port {port} on "{host}" is already in use{_listener(port)}',
            hint=f'stop that program, or choose another "{option}" (0 picks a free one)',
        )
    return port


def _listener(port: int) -> str:
    with suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr
            if listens and listens.port == port and connection.pid:
                return f' by "{psutil.Process(connection.pid).name()}" (process {connection.pid})'
    return ""
