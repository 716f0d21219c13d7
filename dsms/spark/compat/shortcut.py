"""A shortcut that relies on internals of Spark: its name, and whether it is switched on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The environment variable with the names of the shortcuts to turn off; `1` or `all` turns all of them off.
SWITCH = "DSMS_PLAIN_SPARK"
#: The Spark versions (major and minor) with which all shortcuts were tested.
TESTED_VERSIONS = ("4.3",)


@dataclass(frozen=True)
class Shortcut:
    """A shortcut that relies on internals of Spark. `saves` says how much it was measured to save."""

    name: str
    saves: str

    def on(self, environ: Mapping[str, str]) -> bool:
        """Whether the shortcut is used.

        >>> shortcut = Shortcut("spark_home", "33 MB")
        >>> shortcut.on({}), shortcut.on({SWITCH: "1"}), shortcut.on({SWITCH: "spark_home, class_archive"})
        (True, False, False)
        >>> shortcut.on({SWITCH: "worker_daemon"}), shortcut.on({SWITCH: "0"}), shortcut.on({SWITCH: ""})
        (True, True, True)
        """
        off = [word.strip() for word in environ.get(SWITCH, "").split(",")]
        return not {"1", "all", self.name} & {*off}


def untested(version: str) -> bool:
    """Whether the shortcuts have not been tested with a version of Spark.

    >>> untested("4.3.0"), untested("5.0.1")
    (False, True)
    """
    return ".".join(version.split(".")[:2]) not in TESTED_VERSIONS
