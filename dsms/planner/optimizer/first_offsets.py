"""First offsets: restricts a plan to the records that its sources still had when its query was registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dsms.model import logical
from dsms.model.objects import FirstOffsets
from dsms.model.properties import inputs
from dsms.model.replace_inputs import with_inputs


def reading_from(node: logical.Node, first: FirstOffsets) -> logical.Node:
    """The plan whose scans begin at the offsets `first`, by source id and partition. Scans of views already have first
    offsets and keep them.
    """
    if not first:
        return node
    if isinstance(node, logical.StreamScan):
        return _scan_from(node, first)
    return with_inputs(node, tuple(reading_from(below, first) for below in inputs(node)))


def _scan_from(scan: logical.StreamScan, first: FirstOffsets) -> logical.StreamScan:
    promises = tuple(
        replace(promise, other=_scan_from(promise.other, first)) if isinstance(promise, logical.Reference) else promise
        for promise in scan.promises
    )
    offsets = scan.first or tuple(sorted(first.get(scan.source.id, {}).items()))
    return replace(scan, promises=promises, first=offsets)


def needed_from(scan: logical.StreamScan) -> dict[int, int]:
    """The first offset that a scan needs, by partition."""
    return {**dict.fromkeys(range(scan.source.partitions), 0), **scan.source.start, **dict(scan.first)}


def gone_before(scan: logical.StreamScan, earliest: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The offsets that a scan needs but its topic no longer has, by partition: the first, and one after the last."""
    needed = needed_from(scan)
    return {
        partition: (needed[partition], offset)
        for partition, offset in sorted(earliest.items())
        if partition in needed and offset > needed[partition]
    }
