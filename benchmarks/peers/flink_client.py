"""Runs in Flink's own environment: takes statements from standard input, one JSON text a line, and answers each.

The first line is the configuration. An answer is `@` and the seconds that the statement took until its job had ended.
"""

import json
import sys
import time

from pyflink.common import Configuration  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]


def main() -> None:
    """Serves until the input ends; a failing statement ends the process."""
    configuration = Configuration()
    for name, value in json.loads(sys.stdin.readline()).items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    print("@0", flush=True)
    for line in sys.stdin:
        started = time.monotonic()
        tables.execute_sql(json.loads(line)).wait()
        print(f"@{time.monotonic() - started}", flush=True)


if __name__ == "__main__":
    main()
