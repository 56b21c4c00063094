"""The schemas against the loader: whatever ships is valid in both, and mistakes that both can see are seen by both."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from harness.spec.schema import KINDS, schema

ROOT = Path(__file__).parents[2]
FOLDERS = {"task": "tasks", "suite": "suite/suites", "agent": "agents"}
FILES = [(kind, path) for kind, folder in FOLDERS.items() for path in sorted((ROOT / folder).glob("*.yaml"))]


def wrong(kind, data):
    return [e.message for e in jsonschema.Draft202012Validator(schema(kind)).iter_errors(data)]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_and_the_published_file_is_the_same(kind):
    jsonschema.Draft202012Validator.check_schema(schema(kind))
    assert json.loads((ROOT / "docs" / "schema" / f"{kind}.json").read_text()) == schema(kind)


@pytest.mark.parametrize("kind, path", FILES, ids=lambda value: getattr(value, "stem", value))
def test_what_ships_is_valid_and_names_its_schema(kind, path):
    assert wrong(kind, yaml.safe_load(path.read_text())) == []
    first = path.read_text().splitlines()[0]
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert named != first and (path.parent / named).resolve() == ROOT / "docs" / "schema" / f"{kind}.json"


@pytest.mark.parametrize("change", [
    {"inputz": {}}, {"level": "huge"}, {"outputs": 0}, {"cases": {}}, {"cases": {"a": {"rows": 0}}},
    {"cases": {"a": {"rows": 3, "dtype": "float33"}}}, {"inputs": {"x": {"shape": ["rows"], "init": {"norml": {}}}}},
    {"inputs": {"x": {"shape": ["rows"], "init": {"integers": {"low": 0}}}}}, {"compare": "closely"},
    {"inputs": {"x": {"shape": ["rows"], "init": {"normal": {}, "uniform": {}}}}}, {"reference_source": "x = 1"},
])
def test_mistakes_are_seen_while_typing(change):
    task = yaml.safe_load((ROOT / "tasks" / "softmax.yaml").read_text())
    assert wrong("task", {**task, **change})
