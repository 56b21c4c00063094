"""Each layer alone, in a process of its own that tries it and says what it finds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRELUDE = """
import errno, json, os, socket, sys, threading
from harness.containment import landlock, limits, namespaces, privileges, root, syscalls, system
facts = {}

def tried(function, *arguments):
    "None when it works, else the name of the error"
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
"""


@pytest.fixture
def alone(tmp_path):
    """alone(source) runs it after PRELUDE in a fresh process; returns its `facts`. Skips what it calls unsupported."""

    def run(source, **options):
        done = subprocess.run([sys.executable, "-c", f"{PRELUDE}\n{source}\nprint('FACTS' + json.dumps(facts))"],
                              capture_output=True, text=True, cwd=ROOT, timeout=60, **options)
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout.rpartition("FACTS")[2])
        if "unsupported" in facts:
            pytest.skip(facts["unsupported"])
        return facts

    return run
