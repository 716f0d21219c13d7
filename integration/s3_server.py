"""An S3-compatible server in a separate process, which keeps its objects in memory."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

from dsms.local.ports import free_port
from dsms.local.process import ManagedProcess, ProcessSpec

BUCKET = "checkpoints"


@contextmanager
def s3_server(directory: Path, secret: str = "not-a-secret") -> Iterator[dict[str, str]]:
    """A server with one empty bucket; yields the environment variables with its address and credentials."""
    port = free_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    command = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
    spec = ProcessSpec("s3", command, directory / "s3.log", lambda: _listens(port), {**os.environ})
    server = ManagedProcess(spec)
    server.start()
    try:
        client = boto3.client(
            "s3",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="tester",
            aws_secret_access_key=secret,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield environment
    finally:
        server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
