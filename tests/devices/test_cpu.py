"""Facts of the machine against what the system itself says."""

import json
import os
import platform
import re
from io import StringIO

import pytest

from harness.devices import cpu


@pytest.fixture
def fresh():
    cpu.facts.cache_clear()
    yield
    cpu.facts.cache_clear()


def test_facts_are_the_systems(fresh):
    found = cpu.facts()
    assert found["device"] == "cpu" and found["machine"] == os.uname().machine and found["kernel"] == os.uname().release
    assert found["cores"] == len(os.sched_getaffinity(0)) >= 1
    with open("/proc/meminfo") as file:
        total = int(next(line.split()[1] for line in file if line.startswith("MemTotal"))) * 1024
    assert found["memory"] == pytest.approx(total, rel=0.02)
    assert json.loads(json.dumps(found)) == found


def test_cores_are_those_this_process_may_use(fresh, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 9})
    assert cpu.facts()["cores"] == 3 and cpu.slug().endswith("-3c")


INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz
flags\t\t: fpu sse2 avx2 fma avx512f avx512_bf16 amx_bf16 avx2x

processor\t: 1
model name\t: another
flags\t\t: fpu
"""
ARM = "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd sve bf16\nCPU part\t: 0xd40\n"


def read_from(monkeypatch, text):
    monkeypatch.setattr("builtins.open", lambda path: StringIO(text))


def test_the_name_and_vectors_of_an_intel(fresh, monkeypatch):
    read_from(monkeypatch, INTEL)
    found = cpu.facts()
    assert found["name"] == "Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz"
    assert found["vector"] == ["avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert cpu.slug() == f"cpu-intel-xeon-platinum-8480c-2-00ghz-{found['cores']}c"


def test_an_arm_without_a_name_is_called_by_its_machine(fresh, monkeypatch):
    read_from(monkeypatch, ARM)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert cpu.facts()["name"] == "aarch64" and cpu.facts()["vector"] == ["asimd", "sve"]
    assert cpu.slug().startswith("cpu-aarch64-")


@pytest.mark.parametrize("name", ["AMD EPYC 7B13 64-Core Processor", "x" * 300, "Ünïcode / \\ : * CPU", "", "(R)(TM)",
                                  "z" * 39 + " " + "z" * 9])
def test_a_slug_is_a_name_for_every_file_system(fresh, monkeypatch, name):
    read_from(monkeypatch, f"model name : {name}\nflags : avx2\n")
    assert re.fullmatch(r"cpu-[a-z0-9-]+-\d+c", cpu.slug()), cpu.slug()
    assert len(cpu.slug()) < 60 and "--" not in cpu.slug()
