"""Creates a SPARK_HOME of symbolic links, with the installed Python package and only the jars that an executor may
need.

In Spark's own SPARK_HOME, the Python package is a zip file of sources. The zip file is first on the path of the five
Python processes that a stream starts, so each of them compiles the sources. Here a directory named `pyspark.zip`
replaces the zip file. The JVM keeps a list of the entries of each jar, so fewer jars take less memory.
"""

from __future__ import annotations

from pathlib import Path

import pyspark

from dsms.spark.compat.shortcut import Shortcut

SHORTCUT = Shortcut("spark_home", "59 MB of an executor; the class archive needs this shortcut")
#: The prefixes of the jars that are left out. They belong to other parts of Spark: machine learning, graphs, Hive,
#: Kubernetes and Yarn as masters, the server and the shells of Spark Connect and Scala.
_OTHERS = (
    "algebra", "arpack", "blas", "breeze", "cats-", "connect-repl", "datanucleus-", "derby", "hive-", "JTransforms",
    "kubernetes-", "lapack", "scala-compiler", "spark-connect", "spark-graphx", "spark-hive", "spark-kubernetes",
    "spark-mllib", "spark-pipelines", "spark-repl", "spark-yarn", "spire", "vertx-", "volcano-",
)  # fmt: skip


def jars() -> list[Path]:
    """The jars of an executor, by name."""
    return sorted(jar for jar in Path(pyspark.__file__).parent.glob("jars/*.jar") if not jar.name.startswith(_OTHERS))


def linked_home(target: Path) -> Path:
    """Creates a SPARK_HOME of links at `target`, which must not exist, and returns it."""
    package = Path(pyspark.__file__).parent
    # Spark looks for a zip file of this name, but Python also accepts a directory
    modules = target / "python" / "lib" / "pyspark.zip"
    modules.mkdir(parents=True)
    (modules / package.name).symlink_to(package)
    (target / "bin").symlink_to(package / "bin")
    (target / "jars").mkdir()
    for jar in jars():
        (target / "jars" / jar.name).symlink_to(jar)
    return target
