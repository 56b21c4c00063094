"""A suite: a named, versioned list of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from harness.spec.document import parse_yaml, read_text
from harness.spec.errors import SpecError
from harness.spec.explain import validate
from harness.spec.task import Model, Task

if TYPE_CHECKING:
    from harness.spec.content import Content


class Suite(Model):
    """A list of tasks that results are published for, as ``<name>@<version>``.

    version: raised whenever the tasks it names, or what they ask, change.
    tasks: names or glob patterns, in the order in which they are run.
    """

    schema_version: Literal[1] = Field(1, alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.\-]{0,63}$")]
    version: Annotated[int, Field(ge=1)]
    title: str = ""
    tasks: Annotated[list[str], Field(min_length=1)]

    def resolve(self, content: Content) -> list[Task]:
        """The tasks, loaded; a task named twice comes once. Raises SpecError for a pattern without a match."""
        return content.select(self.tasks)


def load_suite(path: Path | str) -> Suite:
    """The suite in a YAML file. Raises SpecError listing everything that is wrong with it."""
    path = Path(path)
    document = parse_yaml(read_text(path), str(path))
    suite = validate(Suite, document)
    if suite.name != path.stem:
        raise SpecError(f"name: {suite.name!r} must be the file's name, {path.stem!r}", path, document.line(("name",)))
    return suite
