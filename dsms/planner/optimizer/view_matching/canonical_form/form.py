"""The canonical form of a plan, for comparing plans; SyncSQL section 5.1 calls it the skinned form.

The form has a core, conditions on its rows, and points of synchronisation. σ, total π and synchronisation are pulled up
above the operators that allow it. The operators with state remain as the core; its columns are named by their contents,
not by the query. Two plans with the same core differ only in conditions, output columns and points. The other modules
of this package have the form of each kind of node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.conjuncts import conjuncts
from dsms.planner.optimizer.algebra.split import same_on_equal_rows
from dsms.planner.optimizer.algebra.substitute import substitute
from operators.expressions import MIRRORED, Call, Column, Expression, column, walk
from operators.sync.sync_points import Periodic

Points = Periodic | logical.Node | None
Conditions = frozenset[Expression]
_SYMMETRIC = {**MIRRORED, "not_equal": "not_equal"}


@dataclass(frozen=True)
class CanonicalForm:
    """A canonical form: the expressions `outputs` over the rows of the join of `cores` for which all `conditions` are
    TRUE, at the instants `points`; None means every instant.
    """

    cores: frozenset[str]
    outputs: dict[str, Expression]
    conditions: Conditions = frozenset()
    points: Points = None

    @property
    def data(self) -> str:
        """The name of the relation over which conditions and outputs are evaluated."""
        return digest(self.cores)

    @property
    def rows(self) -> str:
        """The name of the rows, whatever columns of them are output."""
        return digest(self.cores, in_order(self.conditions), self.points)


def digest(*parts: object) -> str:
    """A short name for a sequence of parts; different sequences have different names.

    >>> digest("a", 1) == digest("a", 1) != digest("a1")
    True
    """
    return fingerprint(parts)[:12]


@singledispatch
def canonical_form(node: logical.Node) -> CanonicalForm:
    """The canonical form of an optimised plan. A node above which nothing can be pulled up is a core by itself."""
    return leaf(node)


def leaf(node: logical.Node) -> CanonicalForm:
    """The form of which the node itself is the core."""
    name = digest(node)
    return CanonicalForm(frozenset({name}), columns_of(node, name, schema(node).names))


def columns_of(node: logical.Node, name: str, wanted: Iterable[str]) -> dict[str, Expression]:
    """The wanted columns of a node as columns of the core `name`."""
    fields = map(schema(node).field, wanted)
    return {field.name: replace(column(field), name=f"{name}.{field.name}") for field in fields}


def split_by_keys(below: CanonicalForm, keys: Mapping[str, Expression]) -> tuple[Conditions, Conditions]:
    """The conditions that are the same on all rows with equal keys, and the other conditions."""
    same_on_groups = same_on_equal_rows({key.name for key in keys.values() if isinstance(key, Column)})
    above = frozenset(filter(same_on_groups, below.conditions))
    return above, below.conditions - above


def regrouped(keys: Mapping[str, Expression], above: Conditions, name: str) -> tuple[dict[str, Expression], Conditions]:
    """The keys as columns of the core `name`, and the conditions `above` over these columns."""
    columns = {key: Column(f"{name}.{digest(key)}", key.type, key.nullable) for key in keys.values()}
    renamed = {key.name: new for key, new in columns.items() if isinstance(key, Column)}
    outputs: dict[str, Expression] = {key_name: columns[key] for key_name, key in keys.items()}
    return outputs, frozenset(substitute(condition, renamed) for condition in above)


def in_core(below: CanonicalForm, name: str) -> CanonicalForm:
    """The form with all its columns renamed to columns of the core `name`."""
    return replace(renamed(below, f"{name}."), cores=frozenset({name}), points=None)


def renamed(form: CanonicalForm, prefix: str) -> CanonicalForm:
    """The form with a prefix to the names of its columns, which tells apart the sides of a join with itself."""
    parts = (part for expression in (*form.outputs.values(), *form.conditions) for part in walk(expression))
    columns = {part.name: replace(part, name=f"{prefix}{part.name}") for part in parts if isinstance(part, Column)}
    outputs = {key: substitute(output, columns) for key, output in form.outputs.items()}
    return replace(form, outputs=outputs, conditions=frozenset(substitute(part, columns) for part in form.conditions))


def in_order(expressions: Iterable[Expression]) -> list[str]:
    """The names of expressions, in an order that does not depend on the query."""
    return sorted(map(fingerprint, expressions))


def conditions_of(predicate: Expression | None, outputs: Mapping[str, Expression]) -> Conditions:
    """The conjuncts of a predicate over columns of cores."""
    return frozenset(in_name_order(substitute(part, outputs)) for part in conjuncts(predicate))


def in_name_order(condition: Expression) -> Expression:
    """A comparison of two columns, with its operands in the order of their names."""
    match condition:
        case Call(name, (Column(left), Column(right))) if name in _SYMMETRIC and left > right:
            return replace(condition, function=_SYMMETRIC[name], arguments=condition.arguments[::-1])
    return condition
