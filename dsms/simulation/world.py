"""A simulated world: the services, their neighbours and their users, wired together."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

from connectors.alarms import Alarms
from connectors.kafka.client.topics import SOURCE, ensure_topic
from connectors.simulation.faults import Fault, FaultPlan, Kind
from connectors.simulation.scheduler import EPOCH_S, Process, Scheduler
from connectors.simulation.threads import Clock, Event
from dsms.coordinator.service.coordinator import Coordinator
from dsms.coordinator.service.settings import CoordinatorSettings
from dsms.executor.process import ExecutorProcess
from dsms.runtime.settings import ExecutorSettings
from dsms.simulation.clients import Leading, Producer, StatementClient, in_order
from dsms.simulation.engine import SimulatedEngine
from dsms.simulation.history import AddedPartitions, History
from dsms.simulation.processes import Service

CLUSTER = "sim"
COORDINATOR = "coordinator"
#: The faults that the world carries out itself.
_OWN: tuple[Kind, ...] = ("kill", "pause", "clock jumps")
