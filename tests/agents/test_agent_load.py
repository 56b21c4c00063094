"""Loading agents: by name, path and entry point; parameters checked against the strategy's own signature."""

from importlib import metadata
from pathlib import Path

import pytest

from harness.agents.config import AgentError
from harness.agents.load import load_agent, load_agents
from harness.spec.errors import GauntletError, SpecError

STRATEGY = """\
from dataclasses import dataclass


@dataclass
class Bot:
    size: int = 1
    kind: str = "a"

    def propose(self, view, history):
        return []


class Needy:
    def __init__(self, from_, *, lambda_=0):
        self.place, self.rate = from_, lambda_

    def propose(self, view, history):
        return []


class Open:
    def __init__(self, **anything):
        self.anything = anything

    def propose(self, view, history):
        return []


class Mute:
    pass


class Picky(Bot):
    def __init__(self, size=0):
        if size < 1:
            raise ValueError("size must be positive")
"""


class FakeContent:
    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, relative: str) -> Path:
        if not (self.root / relative).exists():
            raise FileNotFoundError(relative)
        return self.root / relative

    def agents(self) -> dict[str, Path]:
        return {p.stem: p for p in sorted((self.root / "agents").glob("*.yaml"))}


@pytest.fixture
def content(tmp_path):
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "bot.py").write_text(STRATEGY)
    for name, strategy in {"bot": "bot.py:Bot", "needy": "bot.py:Needy", "open": "bot.py:Open"}.items():
        (agents / f"{name}.yaml").write_text(f"schema: 1\nname: {name}\nstrategy: {strategy}\nattempts: 5\n")
    (agents / "bot.yaml").write_text(
        "schema: 1\nname: bot\nstrategy: bot.py:Bot\nparameters: {size: 7}\nattempts: 5\ndescription: A bot.\n"
    )
    return FakeContent(tmp_path)


def test_by_name_with_the_yamls_parameters(content):
    loaded = load_agent("bot", content)
    assert (loaded.name, loaded.attempts, loaded.agent.size, loaded.agent.kind) == ("bot", 5, 7, "a")
    assert loaded.source == content.root / "agents" / "bot.py"


def test_the_command_line_wins(content):
    loaded = load_agent("bot:kind=z,as=mine,attempts=2", content)
    assert (loaded.name, loaded.attempts, loaded.agent.size, loaded.agent.kind) == ("mine", 2, 7, "z")
    assert (loaded.config.name, loaded.config.attempts) == ("mine", 2)
    assert loaded.config.parameters == {"size": 7, "kind": "z"}


def test_a_projects_yaml_may_use_a_strategy_of_the_content(content, tmp_path):
    mine = tmp_path / "elsewhere" / "mine.yaml"
    mine.parent.mkdir()
    mine.write_text("schema: 1\nname: mine\nstrategy: bot.py:Bot\n")
    assert load_agent(str(mine), content).source == content.root / "agents" / "bot.py"
    (mine.parent / "bot.py").write_text(STRATEGY.replace("size: int = 1", "size: int = 2"))
    beside = load_agent(str(mine), content)  # the file beside it comes first, and the two do not mix
    assert beside.agent.size == 2 and load_agent("bot:size=1", content).agent.size == 1
    assert type(beside.agent).__module__ != type(load_agent("bot", content).agent).__module__


def test_by_file_and_class(content):
    loaded = load_agent(f"{content.root}/agents/bot.py:Bot:size=3", content)
    assert (loaded.name, loaded.agent.size, loaded.attempts) == ("bot", 3, None)


def test_changed_code_is_loaded_anew(content):
    load_agent("bot", content)
    (content.root / "agents" / "bot.py").write_text(STRATEGY.replace('"a"', '"changed"'))
    assert load_agent("bot", content).agent.kind == "changed"
    assert not list(content.root.rglob("*.pyc"))  # nothing is left among the content, which may be shipped or read-only


def test_python_keywords_as_parameters(content):
    agent = load_agent("needy:from=here,lambda=3", content).agent
    assert (agent.place, agent.rate) == ("here", 3)
    assert load_agent("open:x=1,from=y", content).agent.anything == {"x": 1, "from_": "y"}


@pytest.mark.parametrize(
    "spec, message",
    [
        ("bott", "no agent is called 'bott'.*'bot'"),
        ("bot:sise=3", "'bot' has no parameter 'sise'.*'size'"),
        ("needy", "'needy' needs from=…, e.g. needy:from=VALUE"),
        ("needy:form=x", "no parameter 'form'.*'from'"),
        ("{root}/agents/bot.py:Bod", "no class 'Bod'.*'Bot'"),
        ("{root}/agents/bot.py", "name its class too"),
        ("{root}/agents/bat.py:Bot", "no strategy file"),
        ("{root}/agents/bot.py:Mute", "Mute has no method propose"),
        ("{root}/agents/bot.py:Mute:x=1", "takes no parameters, 'x' was given"),
        ("{root}/agents/bot.py:Picky", "could not be built: ValueError: size must be positive"),
    ],
)
def test_mistakes_become_messages(content, spec, message):
    with pytest.raises(AgentError, match=message):
        load_agent(spec.format(root=content.root), content)


@pytest.mark.parametrize(
    "code, line, message",
    [("x = 1\nclass A(:\n", 2, "SyntaxError"), ("\n\nimport nowhere_to_be_found\n", 3, "No module named")],
)
def test_broken_strategy_files_are_located(content, code, line, message):
    path = content.root / "agents" / "broken.py"
    path.write_text(code)
    for _ in range(2):  # a failed import leaves nothing behind
        with pytest.raises(AgentError, match=message) as raised:
            load_agent(f"{path}:A", content)
        assert f"{path}:{line}: " in str(raised.value)


def test_missing_yaml_and_wrong_name(content):
    with pytest.raises(SpecError, match="nothing.yaml: cannot be read"):
        load_agent("nothing.yaml", content)
    (content.root / "agents" / "other.yaml").write_text("schema: 1\nname: bot\nstrategy: bot.py:Bot\n")
    with pytest.raises(AgentError, match="must be the file's name, 'other'"):
        load_agent("other", content)


def test_entry_points(content, monkeypatch):
    points = [metadata.EntryPoint("plugged", "collections:Counter", "kernel_gauntlet.agents")]
    points.append(metadata.EntryPoint("gone", "nowhere_at_all:X", "kernel_gauntlet.agents"))
    monkeypatch.setattr("harness.agents.load._entry_points", lambda: points)
    with pytest.raises(AgentError, match="Counter has no method propose"):
        load_agent("plugged", content)
    with pytest.raises(AgentError, match="'gone' could not be loaded: ModuleNotFoundError"):
        load_agent("gone", content)
    with pytest.raises(AgentError, match="did you mean 'plugged'"):
        load_agent("pluged", content)


def test_lists_of_agents_need_names_of_their_own(content):
    assert [a.name for a in load_agents(["bot,bot:as=b", "needy:from=x"], content)] == ["bot", "b", "needy"]
    with pytest.raises(AgentError, match="two agents are called 'bot'.*bot:size=2,as=NAME"):
        load_agents(["bot", "bot:size=2"], content)
    with pytest.raises(GauntletError, match="bot:as=NAME"):
        load_agents(["bot,bot"], content)
