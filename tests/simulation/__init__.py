"""Random histories of the whole service, over the queries of the oracle: `python -m tests.simulation --help`."""
