"""The client of a Flink session, which runs in Flink's environment: it answers statements from its standard input.

Each line is a JSON text; the first one is the configuration. An answer is `@` and the seconds until the statement and
the job that it started have ended; or `!` and the reason of a failure, which ends the process.
"""

import json
import sys
import time

from pyflink.common import Configuration  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]


def main() -> None:
    """Serves until the input ends or a statement fails."""
    configuration = Configuration()
    for name, value in json.loads(sys.stdin.readline()).items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    print("@0", flush=True)
    for line in sys.stdin:
        started = time.monotonic()
        try:
            tables.execute_sql(json.loads(line)).wait()
        except Exception as error:  # noqa: BLE001 any failure is answered, and ends the process
            print(f"!{_cause(str(error))}", flush=True)
            raise SystemExit(1) from None
        print(f"@{time.monotonic() - started}", flush=True)


def _cause(text: str) -> str:
    """The last cause in a Java stack trace."""
    lines = text.splitlines() or ["no reason given"]
    causes = [line for line in lines if line.startswith((": ", "Caused by: "))]
    return (causes or lines)[-1].removeprefix("Caused by").removeprefix(": ")


if __name__ == "__main__":
    main()
