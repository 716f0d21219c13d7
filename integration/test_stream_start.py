"""A stream that Spark cannot start raises a DsmsError, so that the executor tries again and its other fragments
continue."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: A session that does not know the source, like a session whose helper process for the source has ended.
CODE = """
import sys
from pathlib import Path

from dsms.spark.session import SparkSession
from dsms.spark.stream import FragmentStream
from operators.core.errors import DsmsError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    FragmentStream(spark, "f", (Path(sys.argv[1]), Path(sys.argv[1]).parent), {}, print, None).start()
except DsmsError as error:
    print(f"refused: {error}")
spark.stop()
"""


def test_a_stream_that_cannot_start_raises_an_error_of_ours(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path / "checkpoint")]
    env = {**os.environ, "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={tmp_path}", "SPARK_LOCAL_DIRS": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused: "), done.stdout
