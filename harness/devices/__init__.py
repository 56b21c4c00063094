"""Devices: facts, leases, and what a timed block needs to know of the machine."""
