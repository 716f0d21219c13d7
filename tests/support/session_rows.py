"""The relations of a LocalSession as Arrow tables, as one-time statements read them."""

from __future__ import annotations

import pyarrow as pa

from dsms.tables.one_time_query import Relation
from dsms.testing import LocalSession
from dsms.testing.local_tables import as_table


def relations_of(session: LocalSession) -> Relation:
    """Returns the last relation of a stream, view or table, given its name."""

    def relation(name: str) -> pa.Table:
        return as_table(name, session.relation(name), session.catalog)

    return relation
