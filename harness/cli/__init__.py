"""The command line: one file per verb, everything heavy imported inside the verb."""
