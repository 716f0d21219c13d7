"""A store of state in the memory of one process, for tests and `LocalSession`: the laws of `connectors.state`, with a
clock that is passed in, and without servers, files or encoding."""
