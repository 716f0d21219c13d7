"""A SPARK_HOME whose Python is the installed package.

Spark's own has the package as a zip of sources, which comes first on the path of the five Python processes that a
stream begins with: each compiles it anew, for a third of a second.
"""

from __future__ import annotations

from pathlib import Path

import pyspark


def linked_home(target: Path) -> Path:
    """Makes one of links at `target`, which must not exist; gives it back."""
    package = Path(pyspark.__file__).parent
    # Spark looks for a file of this name; to Python a directory on its path is as good
    modules = target / "python" / "lib" / "pyspark.zip"
    modules.mkdir(parents=True)
    (modules / package.name).symlink_to(package)
    for name in ("bin", "jars"):
        (target / name).symlink_to(package / name)
    return target
