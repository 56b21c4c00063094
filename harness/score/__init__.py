"""From judged attempts to figures: estimates with intervals, credits, ranks. Pure functions."""
