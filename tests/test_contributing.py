"""CONTRIBUTING.md, walked as it stands there, and CITATION.cff."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

import harness

ROOT = Path(__file__).resolve().parents[1]


def test_its_blocks_run_one_after_the_other(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"<!-- walk -->\n```bash\n(.*?)```", text, re.S)
    assert len(blocks) >= 4
    folder = tmp_path / "project"
    folder.mkdir()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                   "GAUNTLET_CACHE": str(tmp_path / "cache")}
    said = ""
    for block in blocks:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        assert done.returncode == 0, f"{block}\nended with {done.returncode}:\n{done.stdout}"
        said += done.stdout
    assert re.search(r"silu +valid", said)
    assert "wrong output" in said and re.search(r"^ok, ", said, re.M)
    assert re.search(r"modes +silu +ok", said)


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == harness.__version__ and citation["license"] in (ROOT / "pyproject.toml").read_text()
    assert {"cff-version", "title", "message", "authors"} <= set(citation)
