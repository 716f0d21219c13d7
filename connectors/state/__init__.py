"""What a store of state does: the protocols of its parts, and the types that they exchange.

`connectors.redis` and `connectors.memory` implement the protocols structurally, and mypy checks them where
`dsms/state/stores.py` opens a store by its URL. The laws in the docstrings are tests that run over these stores and
over the simulated one (`tests/support/state_laws.py`). The protocols are not in `dsms.state`, because a store returns
their types, and connectors import nothing of `dsms`. Nothing here talks to another system.
"""
