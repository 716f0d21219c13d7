"""The doctor's findings, and that it repairs no key whose invalid last record hides a valid one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs.internal_log import Entry, Findings, InternalLog, writer_headers
from connectors.native.library import SWITCH, library
from connectors.state.store import FoundDocument
from dsms.coordinator.catalog.catalog_records import Meta, read_part
from dsms.coordinator.doctor.finding import Finding
from dsms.coordinator.doctor.log_checks import Logs, LogState, dropped_findings, lost_catalog, record_findings
from dsms.coordinator.doctor.reader_checks import reader_findings
from dsms.coordinator.doctor.state_checks import Documents, cache_findings, document_findings
from dsms.coordinator.watcher.cut_over import all_mark
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Stream
from dsms.placement.leases import ExecutorStatus
from dsms.runtime.epoch.progress_log import read_entry
from dsms.runtime.fragment.metadata import Metadata
from dsms.runtime.fragment.story import Story
from dsms.runtime.lanes.manifest import LaneManifest, Manifest
from dsms.runtime.shedding.load_shedding import Shedding
from dsms.scheduling.ready import Past

HOT = Query(name="hot", id="o3", sql="", kind="view", select="", topic="dsms.hot")
CATALOG = Catalog(7, 3, {"rooms": Stream(name="rooms", id="o1", sql="", source="s", keys=()), "hot": HOT})


class Log(InternalLog):
    """A log that remembers written records."""

    def __init__(self, purpose: str) -> None:
        self.cluster, self.topic, self.alarms = "c", f"_dsms.c.{purpose}", Alarms()
        self._writer_headers = writer_headers("c", "doctor")


class MemoryLogs(Logs):
    """The internal logs in memory: their entries, and the keys whose last record is invalid."""

    def __init__(self, parts: dict[bytes, bytes | None], entries: dict[bytes, bytes], **left_out: set[bytes]) -> None:
        self.cluster, self.written = "c", list[tuple[str, list[bytes | None], list[bytes | None]]]()
        self.parts = {key: read_part(Entry(key, body, 0, 0))[1] for key, body in parts.items()}
        self.progress = {(entry := read_entry(Entry(key, body, 0, 0))).key: entry for key, body in entries.items()}
        self.states = {
            purpose: LogState(Log(purpose), Findings(left_out.get(purpose, set())))
            for purpose in ("catalog", "progress", "heartbeats", "shed")
        }

    def write(self, records: Any) -> None:
        self.written.append((records.topic, list(records.keys), list(records.values)))


def logged(catalog: Catalog) -> dict[bytes, bytes | None]:
    meta = {b"catalog": msgspec.json.encode(Meta(catalog.version, catalog.ids, 1))}
    return meta | {f"object/{name}".encode(): msgspec.json.encode(item) for name, item in catalog.objects.items()}


def repaired(findings: list[Finding]) -> None:
    for finding in findings:
        if finding.repair is not None:
            finding.repair()


PROGRESS = {b"dsms.hot/0": b'{"query":"o3","frontier":5,"epoch":1}', b"dead/o1/0": b"[5,2]"}


def test_invalid_records_are_settled_unless_they_hide_valid_ones() -> None:
    logs = MemoryLogs(
        logged(CATALOG),
        PROGRESS,
        catalog={b"junk", b"object/hot", b"object/nobody", b"catalog"},
        progress={b"dsms.hot/0", b"dsms.hot/1", b"dead/o1/0", b"dead/x"},
        heartbeats={b"o1/0"},
    )
    found = list(record_findings(logs, ["dsms.hot"]))
    repaired(found)
    assert [(topic.rpartition(".")[2], keys) for topic, keys, _ in logs.written] == [
        ("catalog", [b"junk"]),
        ("catalog", [b"object/nobody"]),
        ("progress", [b"dead/x"]),
        ("heartbeats", [b"o1/0"]),
    ]
    assert {finding.advice.partition(":")[0] for finding in found if finding.repair is None} == {
        "restart the coordinator",
        "restart the executors",
    }
    assert all(finding.severity == "error" for finding in found if finding.repair is None)


def test_progress_of_what_was_dropped_is_removed() -> None:
    gone = {
        b"dsms.gone/0": b'{"query":"o9","frontier":5,"epoch":1}',
        b"dead/o9/0": b"[1,1]",
        b"dead/o3:o9/2": b"[1,1]",
        b"dead/o3:o1/2": b"[1,1]",
    }
    logs = MemoryLogs(logged(CATALOG), PROGRESS | gone)
    repaired(list(dropped_findings(logs, CATALOG)))
    assert [(keys, values) for _, keys, values in logs.written] == [
        ([b"dsms.gone/0", b"dead/o9/0", b"dead/o3:o9/2"], [None] * 3)
    ]
    assert list(dropped_findings(MemoryLogs(logged(CATALOG), PROGRESS), CATALOG)) == []


def test_progress_of_shards_is_kept() -> None:
    parts = {
        b"dsms.hot/0": b'{"query":"o3@0of2","frontier":5,"epoch":1}',
        b"dsms.hot/1": b'{"query":"o3@1of2","frontier":5,"epoch":1}',
        b"_dsms.c.link.o3.ab12/0": b'{"query":"o3~ab12.0","frontier":5,"epoch":1}',
        b"dead/o3@0of2:o1/2": b"[0,4]",
    }
    gone = {b"_dsms.c.link.o9.ab12/0": b'{"query":"o9~ab12.0","frontier":5,"epoch":1}'}
    logs = MemoryLogs(logged(CATALOG), parts | gone)
    repaired(list(dropped_findings(logs, CATALOG)))
    assert [keys for _, keys, _ in logs.written] == [list(gone)]


def test_lost_catalog_version_is_restored_only_from_the_copy() -> None:
    parts = {key: body for key, body in logged(CATALOG).items() if key != b"catalog"}
    logs = MemoryLogs(parts, {}, catalog={b"catalog"})
    assert logs.catalog is None
    assert [finding.repair for finding in lost_catalog(logs, None)] == [None]
    repaired(list(lost_catalog(logs, CATALOG)))
    assert logs.written == [("_dsms.c.catalog", [b"catalog"], [msgspec.json.encode(Meta(7, 3, 0))])]
    assert MemoryLogs(logged(CATALOG), {}).catalog == CATALOG and MemoryLogs({}, {}).catalog == Catalog()


class MemoryKeys:
    """The keys of a Redis in memory, as an inspection sees them."""

    cluster, store = "c", "redis"

    def __init__(self, *found: FoundDocument, runs: dict[str, bytes] | None = None) -> None:
        self.found, self.deleted, self._runs = list(found), list[bytes | str](), runs or {}

    def documents(self) -> list[FoundDocument]:
        return self.found

    def delete(self, key: bytes | str) -> None:
        self.deleted.append(key)


class MemoryState:
    """The copy of the catalog."""

    def __init__(self, body: bytes | None) -> None:
        self.body = body

    def catalog(self) -> bytes | None:
        return self.body

    def set_catalog(self, body: bytes) -> None:
        self.body = body

    def place(self, name: str) -> str:
        return f"dsms:{{c}}:{name}"


def document(name: str, body: bytes | None, *, lasts: bool = False) -> FoundDocument:
    return FoundDocument(f"dsms:{{c}}:{name}".encode(), name, "string" if body is not None else "list", lasts, body)


METADATA = Metadata(epoch=1, costs=(), past=Past(), behind={}, arrived={}, shedding=Shedding()).encode()
STATUS = msgspec.json.encode(ExecutorStatus())


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (document("executor:e", STATUS), None),
        (document("executor:e", STATUS, lasts=True), "it never expires, so no executor wrote it"),
        (document("executor:e", b"\xff"), "JSON is malformed: invalid character"),
        (document("assignments", None), "it is a list, not a document"),
        (document("assignments", b"{}"), None),
        (document("report:0", b"\xc1", lasts=True), "it never expires, so no executor wrote it"),
        (document("story:0:e", msgspec.msgpack.encode(Story())), None),
        (
            document("story:0:e", msgspec.msgpack.encode(Story()), lasts=True),
            "it never expires, so no executor wrote it",
        ),
        (document("story:0:e", b"\xc1"), "MessagePack data is malformed: invalid opcode '\\xc1'"),
        (document("metadata:0", METADATA), None),
        (document("metadata:0", METADATA, lasts=True), "it never expires, so no executor wrote it"),
        (document("metadata:0", METADATA[:-1]), "its checksum is wrong"),
        (document("catalog", b'{"cluster": "d"}'), 'of cluster "d", not of "c"'),
        (document("checkpoint-request", b"what is not known here"), None),
    ],
)
def test_documents(found: FoundDocument, problem: str | None) -> None:
    keys, state = MemoryKeys(found), MemoryState(None)
    documents = Documents(keys, state, None)  # type: ignore[arg-type]
    findings = list(document_findings(documents))
    assert [finding.problem for finding in findings] == ([] if problem is None else [problem])
    repaired(findings)
    assert keys.deleted == ([] if problem is None else [found.key])


def test_unfinished_files_are_found_with_and_without_a_directory_for_state(tmp_path: Path) -> None:
    """Executors keep runs in `state` if `--state-dir` says so, as `dsms up` does, otherwise in `cache`."""
    files = [tmp_path / directory / "c" / "0" / "run.tmp" for directory in ("state", "cache")]
    for file in [*files, tmp_path / "cache" / "other" / "0" / "run.tmp", tmp_path / "cache" / "c" / "0" / "run"]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    documents = Documents(MemoryKeys(), MemoryState(None), None)  # type: ignore[arg-type]
    findings = list(cache_findings(tmp_path, documents))
    assert [(finding.place, finding.problem) for finding in findings] == [
        (str(tmp_path / directory / "c"), "1 unfinished file of crashed executors") for directory in ("state", "cache")
    ]
    repaired(findings)
    assert not any(file.exists() for file in files)
    assert sorted(path.parent.parent.name for path in tmp_path.rglob("run*")) == ["c", "other"]
    assert list(cache_findings(tmp_path, documents)) == []


def test_files_may_be_unfinished_while_an_executor_lives(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "c" / "0" / "run.tmp"
    file.parent.mkdir(parents=True)
    file.touch()
    keys = MemoryKeys(document("executor:e", STATUS))
    assert list(cache_findings(tmp_path, Documents(keys, MemoryState(None), None))) == []  # type: ignore[arg-type]


def test_a_copy_of_another_version_is_written_anew() -> None:
    state: Any = MemoryState(msgspec.json.encode(Catalog(3)))
    documents = Documents(MemoryKeys(), state, CATALOG)  # type: ignore[arg-type]
    repaired(list(document_findings(documents)))
    assert msgspec.json.decode(state.body, type=Catalog) == msgspec.structs.replace(CATALOG, cluster="c")
    assert list(document_findings(documents)) == []


def test_manifest_without_the_runs_of_every_target_is_a_misfit() -> None:
    lane = LaneManifest(("o3",), {}, [{}])
    assert Manifest(lanes={"o3": lane}, targets=1).why_unusable(1) is None
    assert Manifest(lanes={"o3": lane}, targets=2).why_unusable(2) is not None


def test_the_cut_over_waits_for_the_last_executor_that_names_nobody() -> None:
    new, old = ExecutorStatus("running", fragments={"0": "running"}, names_writer=True), ExecutorStatus()
    assert all_mark(["0"], {"a": new}) and not all_mark(["0"], {"a": new, "b": old}) and not all_mark([], {})


def test_unbounded_decompression_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    if library() is not None:
        assert list(reader_findings(KafkaSettings("k:9092"))) == []
        (found,) = reader_findings(KafkaSettings("k:9092", {"sasl.mechanism": "GSSAPI"}))
        assert 'the Kafka client setting "sasl.mechanism"' in found.problem
    monkeypatch.setenv(SWITCH, "off")
    library.cache_clear()
    try:
        (found,) = reader_findings(KafkaSettings("k:9092"))
    finally:
        library.cache_clear()
    assert (found.severity, f"the native part is switched off by {SWITCH}" in found.problem) == ("warning", True)
