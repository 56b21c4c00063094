"""Runs: agents × tasks, the event log, and the finalised record folder."""
