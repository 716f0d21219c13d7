"""Writes and reads plans as documents in JSON or XML (STREAM section 6.2). A document has all objects of a catalog with
their statements, and the plans of queries as nested operators; an import uses only the statements. A digest shows
whether somebody has edited a plan, which would have no effect: such a document is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any
from xml.etree import ElementTree as Xml

import msgspec

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.labels import label
from dsms.model.objects import Object, Query, kind_of, shown_sql
from dsms.model.schema import visible
from dsms.model.types import type_sql
from dsms.model.user_defined import Function
from dsms.planner.physical.fragment_plan import planned
from dsms.registration.object_columns import earlier_columns
from operators.core.errors import UserError

FORMAT = 1
_MAX_BYTES = 64 * 1024 * 1024
#: The characters that XML cannot represent.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of an operator's output."""

    name: str
    type: str


class Operator(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An operator of an optimised plan: its kind, its line in EXPLAIN, its simple attributes, and its inputs."""

    operator: str
    does: str
    key: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    attributes: dict[str, str] = {}
    inputs: tuple[Operator, ...] = ()


class PlanObject(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An object of the catalog. An import runs `statement`, which creates it, and then sets the weight and the pause of
    a query. `plan` is only for people who read the document; `digest` is that of the plan as it was exported, or "" in
    documents of older versions. `notices` say which sources a query reads with the columns that they had before ALTER,
    while an import reads the current ones.
    """

    name: str
    kind: str
    statement: str
    weight: float = 1.0
    paused: bool = False
    plan: Operator | None = None
    digest: str = ""
    notices: tuple[str, ...] = ()


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A catalog as a document; the order of the objects has no meaning."""

    objects: tuple[PlanObject, ...]
    format: int = FORMAT


def document(catalog: Catalog, may_read: Callable[[str], bool] = lambda _: True) -> Document:
    """The objects of a catalog that may be read, in order of creation. Objects of the system and functions are left
    out; a user who may import a document is not always allowed to deploy code.
    """
    users = (item for item in catalog.objects.values() if not item.id.startswith("d"))
    objects = (item for item in users if may_read(item.name) and not isinstance(item, Function))
    return Document(tuple(_object(item, catalog, may_read) for item in objects))


def _object(item: Object, catalog: Catalog, may_read: Callable[[str], bool]) -> PlanObject:
    if not isinstance(item, Query):
        return PlanObject(item.name, kind_of(item), shown_sql(item))
    plan = None if item.periodic is not None else _operator(planned(item, catalog).optimized)
    digest = "" if plan is None else _digest(plan)
    notices = earlier_columns(item, catalog, may_read)
    return PlanObject(item.name, kind_of(item), item.sql, item.weight, item.paused, plan, digest, notices)


def _digest(plan: Operator) -> str:
    """A digest of all parts of a plan, equal in both notations. Later versions compute it in the same way."""
    return hashlib.sha256(msgspec.json.encode(_parts(plan))).hexdigest()[:16]


def _parts(plan: Operator) -> list[Any]:
    columns = [[column.name, column.type] for column in plan.columns]
    parts = [plan.operator, plan.does, list(plan.key), columns, list(map(list, plan.attributes.items()))]
    return [*parts, [_parts(below) for below in plan.inputs]]


def _operator(node: logical.Node) -> Operator:
    columns = tuple(Column(field.name, type_sql(field.type)) for field in visible(node))
    below = tuple(_operator(input_) for input_ in properties.inputs(node))
    does, attributes = _plain(label(node)), {name: _plain(value) for name, value in _attributes(node)}
    return Operator(type(node).__name__, does, properties.keys(node), columns, attributes, below)


def _plain(text: str) -> str:
    """The text without characters that XML cannot represent."""
    return _NOT_IN_XML.sub("\ufffd", text)


def _attributes(node: logical.Node) -> Iterator[tuple[str, str]]:
    """The fields of a node that are texts, numbers or tuples of texts."""
    for field in fields(node):
        value: Any = getattr(node, field.name)
        if isinstance(value, str | int):
            yield field.name, str(value)
        elif isinstance(value, tuple) and value and all(isinstance(item, str) for item in value):
            yield field.name, ", ".join(value)


def to_xml(document: Document) -> bytes:
    """The document as XML.

    >>> to_xml(Document((PlanObject("s", "source", "REGISTER …"),))).decode()
    '<plan format="1"><object name="s" kind="source"><statement>REGISTER …</statement></object></plan>'
    """
    root = Xml.Element("plan", format=str(document.format))
    for item in document.objects:
        element = Xml.SubElement(root, "object", name=item.name, kind=item.kind)
        if item.weight != 1.0:
            element.set("weight", repr(item.weight))
        if item.paused:
            element.set("paused", "true")
        Xml.SubElement(element, "statement").text = _plain(item.statement)
        for notice in item.notices:
            Xml.SubElement(element, "notice").text = _plain(notice)
        if item.digest:
            element.set("digest", item.digest)
        if item.plan is not None:
            _add(element, item.plan)
    written: bytes = Xml.tostring(root, "utf-8", xml_declaration=False)
    return written.replace(b"\r", b"&#13;")


def _add(above: Xml.Element, operator: Operator) -> None:
    element = Xml.SubElement(above, "operator", kind=operator.operator, does=operator.does)
    if operator.key:
        element.set("key", ", ".join(operator.key))
    for column in operator.columns:
        Xml.SubElement(element, "column", name=column.name, type=column.type)
    for name, value in operator.attributes.items():
        Xml.SubElement(element, "attribute", name=name, value=value)
    for below in operator.inputs:
        _add(element, below)


def read_document(body: bytes) -> Document:
    """Reads a document in JSON or XML. Raises UserError if it is invalid."""
    if len(body) > _MAX_BYTES:
        raise UserError("the document is larger than 64 MB")
    try:
        document = _from_xml(body) if body.lstrip()[:1] == b"<" else msgspec.json.decode(body, type=Document)
    except (msgspec.DecodeError, Xml.ParseError, ValueError, RecursionError) as error:
        raise UserError(f"not a plan document: {error}", hint='use the output of "dsms plan export"') from error
    if document.format != FORMAT:
        raise UserError(f"the document has format {document.format}; this version reads format {FORMAT}")
    for item in document.objects:
        if item.plan is not None and item.digest and item.digest != _digest(item.plan):
            raise UserError(
                f'the plan of "{item.name}" was edited, but plans follow from the statements',
                hint="edit the statement, and leave the plan as it was or remove it",
            )
    return document


def _from_xml(body: bytes) -> Document:
    """Reads a document in XML. Refuses declarations of document types and entities, which exported documents never
    have."""
    text = body.decode()
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError("a plan document must not contain <!DOCTYPE or <!ENTITY")
    root = Xml.fromstring(text)
    if root.tag != "plan":
        raise UserError(f'the document starts with <{root.tag}>; expected <plan format="{FORMAT}">')
    _check_parts(root, {"format"}, {"object"})
    objects = tuple(_from_element(element) for element in root)
    return Document(objects, int(root.get("format", FORMAT)))


def _from_element(element: Xml.Element) -> PlanObject:
    _check_parts(element, {"name", "kind", "weight", "paused", "digest"}, {"statement", "notice", "operator"})
    name, statement = element.get("name"), element.findtext("statement")
    if name is None or statement is None:
        raise UserError("an <object> needs a name and a <statement>")
    paused = element.get("paused", "false")
    if paused not in ("true", "false"):
        raise UserError(f'"{name}" has paused="{paused}"', hint="write true or false")
    plan = element.find("operator")
    return PlanObject(
        name,
        element.get("kind", ""),
        statement,
        float(element.get("weight", 1.0)),
        paused == "true",
        None if plan is None else _operator_of(plan),
        element.get("digest", ""),
        tuple(notice.text or "" for notice in element.findall("notice")),
    )


def _operator_of(element: Xml.Element) -> Operator:
    _check_parts(element, {"kind", "does", "key"}, {"column", "attribute", "operator"})
    key = element.get("key")
    return Operator(
        element.get("kind", ""),
        element.get("does", ""),
        tuple(key.split(", ")) if key else (),
        tuple(Column(column.get("name", ""), column.get("type", "")) for column in element.findall("column")),
        {attribute.get("name", ""): attribute.get("value", "") for attribute in element.findall("attribute")},
        tuple(map(_operator_of, element.findall("operator"))),
    )


def _check_parts(element: Xml.Element, attributes: set[str], children: set[str]) -> None:
    """Raises UserError if an element has other attributes or elements: they would have no effect."""
    unknown = [f'the attribute "{name}"' for name in element.attrib if name not in attributes]
    unknown += [f"<{child.tag}>" for child in element if child.tag not in children]
    if unknown:
        known = [*(f'"{name}"' for name in sorted(attributes)), *(f"<{tag}>" for tag in sorted(children))]
        raise UserError(f"<{element.tag}> cannot have {unknown[0]}", hint=f"have: {', '.join(known)}")
