"""Runs a real Kafka broker on this machine, as one node that is broker and controller (KRaft)."""

import base64
import secrets
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dsms.local.ports import claim_port, free_port
from dsms.local.probes import KafkaProbe
from dsms.local.process import ManagedProcess, ProcessSpec, never
from operators.core.errors import ExternalError

FORMAT_TIMEOUT_S = 60.0

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=CLIENT://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=CLIENT://{host}:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
log.dirs={log_dir}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
message.max.bytes=67108864
replica.fetch.max.bytes=67108864
log.cleaner.dedupe.buffer.size=33554432
controlled.shutdown.max.retries=1
metadata.max.idle.interval.ms=5000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""

LOGGING = """\
<Configuration status="ERROR">
  <Appenders>
    <RollingFile name="file" fileName="{log_file}" filePattern="{log_file}.%i">
      <PatternLayout pattern="%d %p %c: %m%n"/>
      <SizeBasedTriggeringPolicy size="10 MB"/>
      <DefaultRolloverStrategy max="3"/>
    </RollingFile>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The broker's data directory, address (port 0 picks a free one) and program. `properties` has lines that are added
    to SERVER_PROPERTIES and override them; they may use the same placeholders.
    """

    data_dir: Path
    java: Path
    jars: Path
    host: str = "127.0.0.1"
    port: int = 0
    heap_mb: int = 768
    properties: str = ""
    jvm_options: tuple[str, ...] = ()


@dataclass(slots=True)
class Broker:
    """A broker that can be started again after a stop or kill, with the same data, cluster id and port."""

    config: BrokerConfig
    port: int = field(init=False)
    _process: ManagedProcess | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.port = claim_port(self.config.host, self.config.port, "kafka_port")

    @property
    def address(self) -> str:
        """The address for `bootstrap.servers` of clients."""
        return f"{self.config.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the last start."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether the broker's process runs."""
        return self._process is not None and self._process.alive

    def start(self, cancelled: Callable[[], bool] = never) -> None:
        """Starts the broker, and waits until it answers an AdminClient."""
        if self.alive:
            return
        self._write_configuration()
        if not self._log_dir.is_dir():
            self._format()
        self._process = ManagedProcess(self._spec())
        self._process.start(cancelled)

    def stop(self) -> None:
        """Shuts the broker down gracefully; its logs are closed and need no recovery."""
        if self._process:
            self._process.stop()

    def kill(self) -> None:
        """Kills the broker, which has the effect of a crash."""
        if self._process:
            self._process.kill()

    @property
    def _log_dir(self) -> Path:
        return self.config.data_dir / "log"

    @property
    def _scratch(self) -> Path:
        return self.config.data_dir / "scratch"

    def _spec(self) -> ProcessSpec:
        return ProcessSpec(
            name="kafka",
            argv=self._java("kafka.Kafka", str(self.config.data_dir / "server.properties")),
            log_file=self.config.data_dir / "kafka.out",
            ready=KafkaProbe(self.address),
        )

    def _java(self, main: str, *arguments: str) -> tuple[str, ...]:
        config = self.config
        options = (
            "-Xms256m",
            f"-Xmx{config.heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-Xshare:auto",
            "-Djava.awt.headless=true",
            f"-Djava.io.tmpdir={self._scratch}",
            f"-Dlog4j2.configurationFile={config.data_dir / 'log4j2.xml'}",
            *config.jvm_options,
        )
        return (str(config.java), *options, "-cp", f"{config.jars}/*", main, *arguments)

    def _write_configuration(self) -> None:
        directory = self.config.data_dir
        shutil.rmtree(self._scratch, ignore_errors=True)  # a killed broker leaves files there
        self._scratch.mkdir(parents=True)
        (directory / "server.properties").write_text(self._properties(self._log_dir), "utf-8")
        (directory / "log4j2.xml").write_text(LOGGING.format(log_file=directory / "kafka.log"), "utf-8")

    def _properties(self, log_dir: Path) -> str:
        return (SERVER_PROPERTIES + self.config.properties).format(
            host=self.config.host, port=self.port, controller_port=free_port("127.0.0.1"), log_dir=log_dir
        )

    def _format(self) -> None:
        """Formats a temporary directory and renames it; so an incompletely formatted directory is never used."""
        fresh = self.config.data_dir / "log.formatting"
        shutil.rmtree(fresh, ignore_errors=True)
        properties = self.config.data_dir / "format.properties"
        properties.write_text(self._properties(fresh), "utf-8")
        command = self._java("kafka.tools.StorageTool", "format", "-t", new_cluster_id(), "-c", str(properties))
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            reason = f"the broker's storage could not be formatted within {FORMAT_TIMEOUT_S:g} s"
            raise ExternalError(reason, hint="the machine may be overloaded; try again") from error
        if done.returncode != 0:
            raise ExternalError("could not format the broker's storage", hint=(done.stdout + done.stderr).strip())
        fresh.rename(self._log_dir)


def new_cluster_id() -> str:
    """A random cluster id in Kafka's notation: 127 random bits as 22 characters, the first of which is never a dash.

    >>> len(new_cluster_id())
    22
    """
    first, *rest = secrets.token_bytes(16)
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")
