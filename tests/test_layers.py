"""Imports point one way: packages have an order, each foreign library has one home, and there are no cycles."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: The packages, lowest first: a module imports from its own package and from those before it.
ORDER = (
    "operators.core",
    "operators.kernels",
    "operators.state",
    "operators.python",
    "operators.expressions",
    "operators.user_aggregates",
    "operators.relational",
    "operators.recursion",
    "operators.aggregates",
    "operators.grouping",
    "operators.joins",
    "operators.ranking",
    "operators.patterns",
    "operators.streams",
    "operators.sync",
    "operators.windows",
    "operators.sessions",
    "operators.constraints",
    "operators.summaries",
    "operators.table_functions",
    "connectors.credentials",
    "connectors.alarms",
    "connectors.durable",
    "connectors.native",
    "connectors.formats",
    "connectors.state",
    "connectors.runs",
    "connectors.memory",
    "connectors.redis",
    "connectors.kafka",
    "connectors.simulation",
    "connectors.kubernetes",
    "connectors.tables",
    "connectors.objects",
    "dsms.state",
    "dsms.model",
    "dsms.planner",
    "dsms.planner.optimizer",
    "dsms.sql",
    "dsms.planner.physical",
    "dsms.registration",
    "dsms.tables",
    "dsms.measurements",
    "dsms.scheduling",
    "dsms.placement",
    "dsms.shedding",
    "dsms.runtime",
    "dsms.introspection",
    "dsms.statements",
    "dsms.telemetry",
    "dsms.local",
    "dsms.spark",
    "dsms.command",
    "dsms.executor",
    "dsms.coordinator",
    "dsms.simulation",
    "dsms.client",
    "dsms.sinks",
    "dsms.testing",
    "dsms.cli",
    "dsms.demo",
)
#: The same for the packages of the coordinator.
COORDINATOR = (
    "dsms.coordinator.audit",
    "dsms.coordinator.idempotency",
    "dsms.coordinator.registry",
    "dsms.coordinator.catalog",
    "dsms.coordinator.watcher",
    "dsms.coordinator.results",
    "dsms.coordinator.tables",
    "dsms.coordinator.sinks",
    "dsms.coordinator.statements",
    "dsms.coordinator.service",
    "dsms.coordinator.doctor",
    "dsms.coordinator.oidc",
    "dsms.coordinator.console",
    "dsms.coordinator.http",
    "dsms.coordinator.postgres",
    "dsms.coordinator.election",
    "dsms.coordinator.__main__",
)
#: The places that may import a foreign library, and its purpose there.
HOMES = {
    "pyspark": (("dsms/spark/",), "Spark runs fragments"),
    "py4j": (("dsms/spark/",), "Spark's own errors"),
    "confluent_kafka": (
        ("connectors/kafka/", "connectors/simulation/kafka/", "dsms/local/probes.py"),
        "the log; its simulation; is the broker up?",
    ),
    "kafka": (
        ("connectors/kafka/", "connectors/simulation/kafka/"),
        "requests of Kafka's protocol, whose records are read and written as columns",
    ),
    "greenlet": (("connectors/simulation/",), "tasks of a simulation"),
    "cramjam": (("connectors/kafka/",), "compression of batches of records"),
    "redis": (("connectors/redis/", "dsms/local/probes.py"), "state and leases; is the server up?"),
    "kubernetes": (("connectors/kubernetes/",), "the lease of the leading coordinator"),
    "urllib3": (
        ("connectors/kafka/schema_registry/registry.py", "connectors/kubernetes/"),
        "the schema registry; errors of the Kubernetes client",
    ),
    "fastavro": (("connectors/formats/", "dsms/coordinator/"), "Avro schemas"),
    "avro": (("connectors/formats/", "dsms/coordinator/"), "compatibility of Avro schemas"),
    "google": (("connectors/formats/", "dsms/coordinator/registry/"), "messages and schemas of Protobuf"),
    "sqlglot": (
        ("dsms/sql/", "dsms/model/", "dsms/statements/", "dsms/tables/", "dsms/cli/", "dsms/coordinator/postgres/"),
        "parsing; statements and types as written hold its trees, which end at the binder or at what is asked once;"
        " clients' queries of PostgreSQL's catalog",
    ),
    "duckdb": (("dsms/tables/",), "the one-time SELECT, INSERT, UPDATE and DELETE"),
    "fsspec": (("connectors/objects/",), "checkpoints in directories and object stores"),
    "sqlalchemy": (("connectors/tables/",), "loading tables from databases"),
    "pyiceberg": (
        ("connectors/tables/sink_iceberg.py", "connectors/tables/sink_iceberg_files.py"),
        "results in Iceberg tables",
    ),
    "deltalake": (("connectors/tables/sink_delta.py",), "results in Delta tables"),
    "fastapi": (("dsms/coordinator/",), "REST"),
    "starlette": (("dsms/coordinator/",), "REST"),
    "uvicorn": (("dsms/coordinator/",), "REST"),
    "h11": (("dsms/coordinator/http/",), "how far a request of REST has come"),
    "httpx": (
        ("dsms/cli/", "dsms/client/", "dsms/local/", "dsms/demo/", "dsms/coordinator/oidc/"),
        "clients of REST services and downloads",
    ),
    "joserfc": (("dsms/coordinator/oidc/",), "signatures and claims of OIDC tokens"),
    "pydantic": (("dsms/coordinator/",), "documents of the REST API"),
    "typer": (
        (
            "dsms/cli/",
            "dsms/command.py",
            "dsms/coordinator/__main__.py",
            "dsms/executor/__main__.py",
            "dsms/demo/__main__.py",
        ),
        "command lines",
    ),
    "click": (("dsms/cli/",), "the command line"),
    "rich": (("dsms/cli/", "dsms/demo/"), "what people see"),
    "prompt_toolkit": (("dsms/cli/",), "the SQL shell"),
    "pygments": (("dsms/cli/",), "colours of the SQL shell"),
    "packaging": (("operators/python/",), "requirements of functions in Python"),
    "pytest": (("dsms/testing/",), "the plugin for tests of queries"),
    "psutil": (("dsms/local/",), "processes of this machine"),
    "opentelemetry": (("dsms/telemetry/",), "traces and metrics"),
    "prometheus_client": (("dsms/telemetry/",), "metrics as Prometheus reads them"),
    "structlog": (("dsms/",), "logs of the services"),
    "tenacity": (("dsms/", "connectors/"), "repeating what may succeed later"),
}
#: The places of `dsms` that may import the package of a store of state; all others use `connectors.state`.
STORE_HOMES = {
    "connectors.redis": (("dsms/state/stores.py",), "opens stores by their URLs, in every process"),
    "connectors.memory": (("dsms/testing/", "dsms/simulation/"), "the state of a LocalSession, and of a simulation"),
}
#: Libraries of all packages: Arrow crosses every boundary, Polars and NumPy hold columns, msgspec encodes documents.
EVERYWHERE = {"pyarrow", "polars", "numpy", "msgspec"}
OURS = ("operators", "connectors", "dsms")


def modules() -> dict[str, Path]:
    """Our source files, by the names that they are imported by."""
    found = (path for package in OURS for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


MODULES = modules()


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports, including imports in functions and for type checking, and the lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"relative import in {path}"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield (full if full in MODULES else node.module), node.lineno


def package_of(module: str) -> str:
    """The package of a module: its first two names; three in `dsms.planner`, whose parts are layers."""
    return ".".join(module.split(".")[: 3 if module.startswith("dsms.planner.") else 2])


def graph() -> dict[str, dict[str, int]]:
    """The number of imports from each package to each other one."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for module, path in MODULES.items():
        for name, _ in imports(path):
            if name in MODULES and package_of(name) != package_of(module):
                found[package_of(module)][package_of(name)] += 1
    return found


def circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules or packages of a circle of imports; empty if there is none."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_every_package_has_its_place() -> None:
    found = {package_of(module) for module in MODULES} - set(OURS)
    assert found == set(ORDER)


def test_imports_point_down() -> None:
    upward = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for module, path in MODULES.items()
        if package_of(module) in ORDER
        for name, line in imports(path)
        if name in MODULES
        and package_of(name) in ORDER
        and ORDER.index(package_of(name)) > ORDER.index(package_of(module))
    ]
    assert not upward, "\n".join(upward)


def test_the_model_imports_no_connector() -> None:
    """What is stored in a catalog does not depend on how other systems are reached."""
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for module, path in MODULES.items()
        if package_of(module) == "dsms.model"
        for name, line in imports(path)
        if name.startswith("connectors.")
    ]
    assert not found, "\n".join(found)


def test_imports_of_the_coordinator_point_down() -> None:
    """Each of its packages is in the order, and imports only from itself and from those before it."""
    order = dict(zip(COORDINATOR, range(len(COORDINATOR)), strict=True))
    inside = {module: ".".join(module.split(".")[:3]) for module in MODULES if module.startswith("dsms.coordinator.")}
    assert set(inside.values()) == set(COORDINATOR)
    upward = [
        f"{MODULES[module].relative_to(ROOT)}:{line} imports {name}"
        for module, package in inside.items()
        for name, line in imports(MODULES[module])
        if name in inside and order[inside[name]] > order[package]
    ]
    assert not upward, "\n".join(upward)


def test_packages_import_each_other_in_no_circle() -> None:
    """The test also prints the graph, with the number of imports on each edge: `pytest -s tests/test_layers.py`."""
    edges = graph()
    for package in reversed(ORDER):
        below = ", ".join(f"{name} {count}" for name, count in sorted(edges[package].items()))
        sys.stdout.write(f"{package} -> {below}\n")
    assert circle(edges) == []


def test_files_import_each_other_in_no_circle() -> None:
    edges = {
        module: {name for name, _ in imports(path) if name in MODULES} - {module} for module, path in MODULES.items()
    }
    assert circle(edges) == []


def test_import_circles_are_detected() -> None:
    assert circle({"a": {"b": 1}, "b": {"c": 1}, "c": {"a": 1}, "d": {"a": 1}})
    assert circle({"a": {"b": 1, "c": 1}, "b": {"c": 1}}) == []


@pytest.mark.parametrize("package", OURS)
def test_each_foreign_library_has_one_home(package: str) -> None:
    known = {*OURS, *EVERYWHERE, *sys.stdlib_module_names}
    astray = []
    for path in (ROOT / package).rglob("*.py"):
        for module, line in imports(path):
            name, place = module.split(".")[0], str(path.relative_to(ROOT))
            if name not in known and not place.startswith(HOMES.get(name, ((), ""))[0] or ("?",)):
                astray.append(f"{place}:{line} imports {name}; home: {HOMES.get(name, 'none, add it with a reason')}")
    assert not astray, "\n".join(astray)


def test_each_store_of_state_is_imported_only_where_it_is_opened() -> None:
    imported = {
        (package_of(name), str(path.relative_to(ROOT)), line)
        for module, path in MODULES.items()
        if module.startswith("dsms.")
        for name, line in imports(path)
        if package_of(name) in STORE_HOMES
    }
    astray = [found for found in sorted(imported) if not found[1].startswith(STORE_HOMES[found[0]][0])]
    assert not astray, "\n".join(f"{place}:{line} imports {store}" for store, place, line in astray)
    assert {store for store, _, _ in imported} == STORE_HOMES.keys()


def test_the_order_is_that_of_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition("| what people use |")[2].partition("\n\n")[0]
    named = [name if name[0] != "." else f"operators{name}" for name in re.findall(r"`([a-z_.]+)`", table)]
    assert named == list(reversed(ORDER))
