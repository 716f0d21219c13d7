"""Numbers aliases that differ from another column only by case, which SQL takes for the same name."""

from __future__ import annotations

from itertools import count

from sqlglot import exp

from dsms.sql.parser.dialect import Dsms


def with_numbered_aliases(select: exp.Expr) -> exp.Expr:
    """The query with a number added to each such alias; the same object if it has no such alias. ESL's paper prints
    `price, min(price) OVER (…) AS Price`.

    >>> import sqlglot
    >>> with_numbered_aliases(sqlglot.parse_one("SELECT a, b AS A FROM S")).sql()
    'SELECT a, b AS A_2 FROM S'
    """
    names: list[str] = []
    changed = select.copy()
    for item in changed.selects if isinstance(changed, exp.Select) else ():
        taken = {name.lower() for name in names}
        if isinstance(item, exp.Alias) and item.alias not in names and item.alias.lower() in taken:
            free = (f"{item.alias}_{number}" for number in count(2))
            item.set("alias", exp.to_identifier(next(name for name in free if name.lower() not in taken)))
        names.append(item.alias_or_name)
    return select if changed == select else changed


def text_of(select: exp.Expr) -> str:
    """The text of a query in the dialect of this system."""
    return select.sql(dialect=Dsms)
