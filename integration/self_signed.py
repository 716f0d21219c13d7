"""Certificates for 127.0.0.1: self-signed, or signed by a certificate authority of the test."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """A private key and its certificate, as PEM files."""

    key: Path
    certificate: Path


def certificate(directory: Path) -> Certificate:
    """Creates a key and a self-signed certificate in the directory."""
    made = Certificate(directory / "key.pem", directory / "certificate.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return made


def signed(authority: Certificate, directory: Path, name: str) -> Certificate:
    """Creates a key and a certificate with that name, signed by the authority, for servers and clients."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Certificate(directory / f"{name}.key", directory / f"{name}.pem")
    request, extensions = directory / f"{name}.csr", directory / f"{name}.ext"
    extensions.write_text(
        "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n"
    )
    key = ("-newkey", "rsa:2048", "-nodes", "-keyout", str(made.key))
    _openssl("req", "-new", *key, "-subj", f"/CN={name}", "-out", str(request))
    signing = ("-CA", str(authority.certificate), "-CAkey", str(authority.key), "-CAcreateserial", "-days", "2")
    _openssl("x509", "-req", "-in", str(request), *signing, "-extfile", str(extensions), "-out", str(made.certificate))
    return made


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
