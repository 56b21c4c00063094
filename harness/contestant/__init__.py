"""The untrusted side: the processes that build, load and run candidates. Stdlib and torch only."""
