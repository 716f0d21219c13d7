"""A certificate for the name of a server, and its certificate authority."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate_for(name: str) -> dict[str, bytes]:
    """The content of a Secret of type kubernetes.io/tls: tls.crt, tls.key and ca.crt."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _name("authority of the test")
    ca = _signed(authority, authority, ca_key, ca_key, [(x509.BasicConstraints(ca=True, path_length=0), True)])
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    server = _signed(_name(name), authority, key, ca_key, [(names, False)])
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {"tls.crt": _pem(server), "tls.key": private, "ca.crt": _pem(ca)}


def _signed(subject: x509.Name, issuer: x509.Name, key, issuer_key, extensions) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
    for extension, critical in (*extensions, (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)):
        builder = builder.add_extension(extension, critical)
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return builder.add_extension(issued_by, critical=False).sign(issuer_key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
