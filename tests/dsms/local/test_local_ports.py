"""Free ports of this machine."""

from dsms.local.ports import free_port


def test_no_port_is_handed_out_twice() -> None:
    """A caller may request several ports before it listens on any of them."""
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == 500
