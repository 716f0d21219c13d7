"""A broker behind a proxy: a second listener advertises the proxy's port to its clients."""

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
    """A broker with further properties, which is not started yet; the port on which its proxy has to listen; and the
    port of the broker to which the proxy has to connect."""
    plain, server, link = local_broker(directory, os.environ), free_port(), free_port()
    lines = _LISTENERS.format(server=server, link=link) + properties
    return Broker(replace(plain.config, properties=lines, port=plain.port)), link, server
