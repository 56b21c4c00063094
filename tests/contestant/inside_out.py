"""What the tests of the untrusted side share: constants, and how a file is loaded in there."""

SECRET = "a-secret-of-the-judge's-environment"
MIB = 2**20


def load(contestant, source):
    """Run `source` as a candidate's file inside `contestant`; its answer to the load."""
    return contestant.ask({"op": "load", "language": "python", "entry": "kernel", "args": {}, "hash": "0" * 64,
                           "source": source + "\ndef kernel(x):\n    return x\n"}, 60)
