"""A SPARK_HOME of links: its Python is the installed package, and its jars are those that an executor may need.

Spark's own has the package as a zip of sources, which comes first on the path of the five Python processes that a
stream begins with: each compiles it anew. A directory named `pyspark.zip` takes its place. Of each jar the JVM keeps
the list of what is in it.
"""

from __future__ import annotations

from pathlib import Path

import pyspark

from dsms.spark.compat.trick import Trick

TRICK = Trick("spark_home", "0.35 s for each of five processes at a stream's start; 33 MB and 1.3 CPU s of the JVM")
#: What jars of other parts of Spark begin with: machine learning, graphs, Hive, Kubernetes and Yarn as masters, the
#: server and the shells of Spark Connect and Scala.
_OTHERS = (
    "algebra", "arpack", "blas", "breeze", "cats-", "connect-repl", "datanucleus-", "derby", "hive-", "JTransforms",
    "kubernetes-", "lapack", "scala-compiler", "spark-connect", "spark-graphx", "spark-hive", "spark-kubernetes",
    "spark-mllib", "spark-pipelines", "spark-repl", "spark-yarn", "spire", "vertx-", "volcano-",
)  # fmt: skip


def jars() -> list[Path]:
    """The jars of an executor, by name."""
    return sorted(jar for jar in Path(pyspark.__file__).parent.glob("jars/*.jar") if not jar.name.startswith(_OTHERS))


def linked_home(target: Path) -> Path:
    """Makes one of links at `target`, which must not exist; gives it back."""
    package = Path(pyspark.__file__).parent
    # Spark looks for a file of this name; to Python a directory on its path is as good
    modules = target / "python" / "lib" / "pyspark.zip"
    modules.mkdir(parents=True)
    (modules / package.name).symlink_to(package)
    (target / "bin").symlink_to(package / "bin")
    (target / "jars").mkdir()
    for jar in jars():
        (target / "jars" / jar.name).symlink_to(jar)
    return target
