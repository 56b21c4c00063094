"""Standings in the terminal and the static leaderboard."""
