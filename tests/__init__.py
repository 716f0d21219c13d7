import dsms  # noqa: F401 - before anything imports Polars
