"""Self-signed certificates of 127.0.0.1."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """A private key and its certificate, which is its own authority, as PEM files."""

    key: Path
    certificate: Path


def certificate(directory: Path) -> Certificate:
    """A new key and certificate in the directory."""
    made = Certificate(directory / "key.pem", directory / "certificate.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return made
