"""The leaderboard's page of rogues: what tried to fool the judge, and what became of it. Trust should be visible."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

GROUPS = {"T": "Time", "O": "Outputs", "H": "The harness"}


def gallery_page(templates: Path) -> dict[str, Any] | None:
    """Context of gallery.html from the recorded verdicts in `templates`/gallery.json; None where there are none."""
    try:
        recorded = json.loads((templates / "gallery.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    groups = [{"slug": letter.lower(), "title": title, "rows": []} for letter, title in GROUPS.items()]
    for rogue in recorded["rogues"]:
        kinds, what = re.match(r"((?:[A-Z]\d+ )+)(.*)", rogue["threat"]).groups()
        place = list(GROUPS).index(kinds[0])
        groups[place]["rows"].append({**rogue, "expected": rogue["expected"].replace("_", " "), "kinds": kinds.strip(), "what": what[:1].upper() + what[1:], "order": int(
            re.search(r"\d+", kinds).group()), "guard": (rogue["guard"] or "").partition("/")[0].replace("_", " ")})
    for group in groups:
        group["rows"].sort(key=lambda row: (row["order"], row["name"]))
    return {"root": "", "trail": [("The rogues' gallery", "")], "groups": groups,
            "held": sum(rogue["held"] for rogue in recorded["rogues"]),
            "passed": sum(row["status"] == "ok" for row in recorded["honest"]),
            **{key: recorded[key] for key in ("rogues", "honest", "when", "version", "device", "containment")}}
