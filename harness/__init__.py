"""Kernel Gauntlet: a benchmark, an impartial judge and a leaderboard for agents that write compute kernels."""

__version__ = "0.1.0"
