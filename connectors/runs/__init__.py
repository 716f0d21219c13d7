"""The runs of a fragment as one host uses them: in the memory of a store up to a limit, with a file cache on the host.

A store implements `SharedRuns`, whose methods are single requests. `HostRuns` does the rest, and is the same for all.
"""
