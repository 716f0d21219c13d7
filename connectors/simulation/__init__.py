"""Simulated neighbours (Kafka, the state store, disks, clocks) in one process and in virtual time, which fail as the
real ones do. The simulated service that uses them is in `dsms/simulation/`.
"""
