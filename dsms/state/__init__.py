"""Where the system keeps its state: the address of a store, and the registry of the kinds of stores.

`stores.py` is the only module of `dsms` that knows the packages of stores; all others use the protocols of
`connectors.state`.
"""
