"""The trusted side: oracle, comparison, clocks, verdicts. Never imports, unpickles or compiles anything of a candidate's."""
