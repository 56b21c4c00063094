"""What is asked: tasks, suites, candidates, and where their content lies. Imports no torch at import time."""
