"""A broker that is reached by a proxy: a second listener tells its clients to come back by the proxy's port."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dsms.local.broker import Broker
from dsms.local.installed import local_broker
from dsms.local.ports import free_port

_LISTENERS = """\
listeners=CLIENT://{{host}}:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},LINKED://127.0.0.1:{server}
advertised.listeners=CLIENT://{{host}}:{{port}},LINKED://127.0.0.1:{link}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINKED:PLAINTEXT
"""


def linked_broker(directory: Path, properties: str = "") -> tuple[Broker, int, int]:
    """A broker with further properties that is not started yet, the port that its proxy listens on, and the one to
    which that connects."""
    plain, server, link = local_broker(directory, os.environ), free_port(), free_port()
    lines = _LISTENERS.format(server=server, link=link) + properties
    return Broker(replace(plain.config, properties=lines, port=plain.port)), link, server
