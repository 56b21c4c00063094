"""Facts of the CPU: what a record says about the machine it was measured on."""

from __future__ import annotations

import os
import platform
from functools import lru_cache


@lru_cache
def facts() -> dict:
    """Name, cores this process may use, vector extensions, memory in bytes, kernel. Linux."""
    name, flags = platform.machine(), ""
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            if key.strip() in ("flags", "Features"):
                flags = value
                break
    wanted = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"device": "cpu", "name": name, "cores": len(os.sched_getaffinity(0)),
            "vector": [f for f in wanted if f in flags.split()], "memory": pages, "kernel": platform.release(),
            "machine": platform.machine()}


def slug() -> str:
    """The device's folder name in results, portable: e.g. ``cpu-amd-epyc-2c``."""
    words = "".join(c if c.isascii() and c.isalnum() else "-" for c in facts()["name"].lower())
    words = "-".join(w for w in words.split("-") if w and w not in ("r", "tm", "cpu", "processor", "core"))
    name = words[:40].strip("-") or facts()["machine"].replace("_", "-")
    return f"cpu-{name}-{facts()['cores']}c"


@lru_cache
def cache_bytes() -> int:
    """Size of all last-level caches together, in bytes; 64 MiB where the system does not say."""
    shared: dict[str, int] = {}
    for cpu in range(os.cpu_count() or 1):
        folder = f"/sys/devices/system/cpu/cpu{cpu}/cache"
        try:
            last = max(name for name in os.listdir(folder) if name.startswith("index"))
            with open(f"{folder}/{last}/size") as size, open(f"{folder}/{last}/shared_cpu_list") as who:
                shared[who.read().strip()] = int(size.read().strip().rstrip("K")) << 10
        except (OSError, ValueError):
            continue
    return sum(shared.values()) or 64 * 2**20
