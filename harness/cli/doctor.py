"""``harness doctor``: how well this system contains a candidate."""

from __future__ import annotations

import json
import sys

from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import INFRASTRUCTURE, OK
from harness.cli.options import format_option

if TYPE_CHECKING:
    from harness.judge.doctor import Finding


@click.command()
@format_option("table", "json", "csv", "md")
def doctor(form: str) -> int:
    """Say how well this system contains a candidate, layer by layer.

    Starts one contestant as a judgement would, shows what the system gave it and why it refused the rest, and tries from
    inside what must not work. Exit code 3 when candidates of strangers should not be run here.
    """
    from harness.cli.progress import working
    from harness.judge.contestants import MachineFault
    from harness.judge.doctor import examine
    from harness.judge.level import is_contained
    from harness.spec.errors import GauntletError

    if sys.platform != "linux":
        raise GauntletError("judging needs Linux (namespaces, sealed memory); on other systems use a Linux container or "
                            "virtual machine")
    with working("starting a contestant"):
        try:
            findings, level = examine()
        except MachineFault as fault:
            print(f"harness: {fault}", file=sys.stderr)
            return INFRASTRUCTURE
    held = all(finding.there for finding in findings if finding.layer.startswith("cannot "))
    contained = is_contained(level) and held
    if form == "json":
        print(json.dumps({"contained": contained, "level": level, "layers": [f._asdict() for f in findings]}, indent=1))
    elif form != "table":
        from harness.cli.tables import print_rows

        print_rows([{"layer": f.layer, "there": f.there, "why": f.why} for f in findings], form)
    else:
        print_findings(findings)
        print("\nCandidates of strangers can be judged here." if contained else
              "\nCandidates of strangers should not be judged here: only what you trust, with --unsafe.")
    return OK if contained else INFRASTRUCTURE


def print_findings(findings: list[Finding]) -> None:
    """One layer a line, or more where the terminal is narrow."""
    import textwrap

    from harness.cli.options import color_on, terminal_width

    colour = color_on(sys.stdout)
    for finding in findings:
        mark = "yes" if finding.there else "no "
        text = textwrap.fill(f"{finding.layer}: {finding.why}", terminal_width() - 5, break_on_hyphens=False)
        if colour:
            mark = f"\x1b[{32 if finding.there else 31}m{mark}\x1b[0m"
        print(f"{mark}  " + text.replace("\n", "\n       "))
