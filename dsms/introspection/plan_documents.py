"""Plans as documents (STREAM section 6.2): all objects of a catalog with their statements, and the plans of queries as
nested operators with attributes; as JSON or XML. What is read back are the statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from xml.etree import ElementTree as Xml

import msgspec

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.labels import label
from dsms.model.objects import Object, Query, kind_of
from dsms.model.schema import visible
from dsms.model.types import type_sql
from dsms.physical.fragment_plan import planned
from operators.core.errors import UserError

FORMAT = 1
_MOST_BYTES = 64 * 1024 * 1024
#: What XML cannot hold.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Column(msgspec.Struct, frozen=True):
    """A column of an operator's output."""

    name: str
    type: str


class Operator(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator of an optimised plan: its kind, what it does in words, its simple attributes, and its inputs."""

    operator: str
    does: str
    key: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    attributes: dict[str, str] = {}
    inputs: tuple[Operator, ...] = ()


class PlanObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object of the catalog. `statement` makes it; the rest of what it says of a query holds afterwards, or is told
    for the reader alone (`plan`)."""

    name: str
    kind: str
    statement: str
    weight: float = 1.0
    paused: bool = False
    plan: Operator | None = None


class Document(msgspec.Struct, frozen=True):
    """A catalog as a document; the order of the objects is of no meaning."""

    objects: tuple[PlanObject, ...]
    format: int = FORMAT


def document(catalog: Catalog) -> Document:
    """The objects of a catalog in order of creation, but for the system's own."""
    mine = (one for one in catalog.objects.values() if not one.id.startswith("d"))
    return Document(tuple(_object(one, catalog) for one in mine))


def _object(one: Object, catalog: Catalog) -> PlanObject:
    if not isinstance(one, Query):
        return PlanObject(one.name, kind_of(one), one.sql)
    plan = None if one.periodic is not None else _operator(planned(one, catalog).optimized)
    return PlanObject(one.name, kind_of(one), one.sql, one.weight, one.paused, plan)


def _operator(node: logical.Node) -> Operator:
    columns = tuple(Column(field.name, type_sql(field.type)) for field in visible(node))
    below = tuple(_operator(one) for one in properties.inputs(node))
    return Operator(type(node).__name__, label(node), properties.keys(node), columns, dict(_attributes(node)), below)


def _attributes(node: logical.Node) -> Iterator[tuple[str, str]]:
    """What is a word or number of a node, or a list of such."""
    for field in fields(node):
        value: Any = getattr(node, field.name)
        if isinstance(value, str | int):
            yield field.name, str(value)
        elif isinstance(value, tuple) and value and all(isinstance(one, str) for one in value):
            yield field.name, ", ".join(value)


def to_xml(found: Document) -> bytes:
    """The document as XML.

    >>> to_xml(Document((PlanObject("s", "source", "REGISTER …"),))).decode()
    '<plan format="1"><object name="s" kind="source"><statement>REGISTER …</statement></object></plan>'
    """
    root = Xml.Element("plan", format=str(found.format))
    for one in found.objects:
        made = Xml.SubElement(root, "object", name=one.name, kind=one.kind)
        if one.weight != 1.0:
            made.set("weight", repr(one.weight))
        if one.paused:
            made.set("paused", "true")
        Xml.SubElement(made, "statement").text = _UNSPEAKABLE.sub("\ufffd", one.statement)
        if one.plan is not None:
            _add(made, one.plan)
    written: bytes = Xml.tostring(root, "utf-8", xml_declaration=False)
    return written.replace(b"\r", b"&#13;")


def _add(above: Xml.Element, one: Operator) -> None:
    made = Xml.SubElement(above, "operator", kind=one.operator, does=_UNSPEAKABLE.sub("\ufffd", one.does))
    if one.key:
        made.set("key", ", ".join(one.key))
    for column in one.columns:
        Xml.SubElement(made, "column", name=column.name, type=column.type)
    for name, value in one.attributes.items():
        Xml.SubElement(made, "attribute", name=name, value=_UNSPEAKABLE.sub("\ufffd", value))
    for below in one.inputs:
        _add(made, below)


def read_document(body: bytes) -> Document:
    """A document in either notation; UserError where it is none."""
    if len(body) > _MOST_BYTES:
        raise UserError("the document is larger than 64 MB")
    try:
        found = _from_xml(body) if body.lstrip()[:1] == b"<" else msgspec.json.decode(body, type=Document)
    except (msgspec.DecodeError, Xml.ParseError, ValueError, RecursionError) as error:
        raise UserError(f"not a plan: {error}", hint="want what dsms plan export writes") from error
    if found.format != FORMAT:
        raise UserError(f"the document has the format {found.format}, not {FORMAT}")
    return found


def _from_xml(body: bytes) -> Document:
    """Declarations of types and entities are refused: nothing of ours has any."""
    text = body.decode()
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError("a plan in XML has no <!DOCTYPE and no <!ENTITY")
    root = Xml.fromstring(text)
    if root.tag != "plan":
        raise UserError(f'the document begins with <{root.tag}>, not with <plan format="{FORMAT}">')
    objects = tuple(_from_element(one) for one in root.findall("object"))
    return Document(objects, int(root.get("format", FORMAT)))


def _from_element(one: Xml.Element) -> PlanObject:
    """An object; its plan is not read."""
    name, statement = one.get("name"), one.findtext("statement")
    if name is None or statement is None:
        raise UserError("an <object> needs a name and a <statement>")
    paused = one.get("paused", "false") == "true"
    return PlanObject(name, one.get("kind", ""), statement, float(one.get("weight", 1.0)), paused)
