"""``harness schema``: what the YAML files may hold, for editors."""

from __future__ import annotations

import json

import click

from harness.cli.options import Near


@click.command()
@click.argument("kind", type=Near(("task", "suite", "agent")))
def schema(kind: str) -> None:
    """Print the JSON Schema of a YAML file, for editors: task, suite or agent.

    \b
    harness schema task > task.schema.json

    An editor with YAML support then checks a file that begins with
    # yaml-language-server: $schema=task.schema.json
    """
    from harness.spec.schema import schema as of

    print(json.dumps(of(kind), indent=1, ensure_ascii=False))
