"""Ports of this machine that nobody listens on."""

from dsms.local.ports import free_port


def test_no_port_is_handed_out_twice() -> None:
    """Who asks for several ports at once listens on none of them yet."""
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == 500
