"""The whole service in one process, in virtual time and under one seed: coordinators and executors run as they are,
over the simulated neighbours of `connectors/simulation/`.
"""
