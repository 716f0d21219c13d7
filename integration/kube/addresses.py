"""Addresses of pods and services. In the cluster they are in 10.0.0.0/8, because Kubernetes refuses loopback addresses
as endpoints. Processes listen on the same addresses in 127.0.0.0/8, which are all this machine."""

import itertools
import threading

_numbers = itertools.count(2)
_lock = threading.Lock()


def new_pod_address() -> str:
    """An address that no pod had before."""
    with _lock:
        number = next(_numbers)
    return f"10.244.{number // 250}.{number % 250 + 1}"


def on_this_machine(address: str) -> str:
    """The address on this machine for an address of the cluster.

    >>> on_this_machine("10.244.0.3")
    '127.244.0.3'
    """
    first, _, rest = address.partition(".")
    assert first == "10", address
    return f"127.{rest}"
