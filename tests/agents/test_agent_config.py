"""How agents are written on the command line and in YAML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agents.config import AgentError, AgentSpec, parse_spec, read_config, split_specs
from harness.spec.errors import SpecError


@pytest.mark.parametrize(
    "text, expected",
    [
        ("eager", ["eager"]),
        (
            "eager,search:sampler=random,seed=3,as=x,handwritten",
            ["eager", "search:sampler=random,seed=3,as=x", "handwritten"],
        ),
        (" eager , ./mine/a.yaml:x=1 ", ["eager", "./mine/a.yaml:x=1"]),
        ("my/bot.py:Bot,eager", ["my/bot.py:Bot", "eager"]),
        ("my/bot.py:Bot:x=1,y=2,eager", ["my/bot.py:Bot:x=1,y=2", "eager"]),
        ("files:from=a=b/c.cpp,as=q", ["files:from=a=b/c.cpp,as=q"]),
    ],
)
def test_split(text, expected):
    assert split_specs(text) == expected


names = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True)
values = st.from_regex(r"[A-Za-z0-9_./-]{1,8}", fullmatch=True)
keys = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
specs = st.tuples(names, st.dictionaries(keys, values, max_size=3)).map(
    lambda t: t[0] + (":" + ",".join(f"{k}={v}" for k, v in t[1].items()) if t[1] else "")
)


@given(st.lists(specs, min_size=1, max_size=4))
def test_split_undoes_join(parts):
    assert split_specs(",".join(parts)) == parts


@pytest.mark.parametrize(
    "text, message",
    [
        ("eager,,search", "empty item"),
        ("", "empty item"),
        ("eager,seed=3", "write eager:seed=3"),
        ("seed=3", "belongs to no agent"),
        ("a/bot.py:Bot,seed=3", "write a/bot.py:Bot:seed=3"),
    ],
)
def test_split_refuses(text, message):
    with pytest.raises(AgentError, match=message):
        split_specs(text)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("eager", AgentSpec("eager")),
        (
            "search:sampler=random,n=3,x=1e-2,on=true,none=null,as=007,attempts=8",
            AgentSpec("search", {"sampler": "random", "n": 3, "x": 0.01, "on": True, "none": None}, "007", 8),
        ),
        ("a/b.yaml:x=k:v", AgentSpec("a/b.yaml", {"x": "k:v"})),
        ("a/b.py:Bot", AgentSpec("a/b.py:Bot")),
        ("a/b.py:Bot:x=1", AgentSpec("a/b.py:Bot", {"x": 1})),
        ("files:from=a=b.cpp", AgentSpec("files", {"from": "a=b.cpp"})),
    ],
)
def test_parse(text, expected):
    assert parse_spec(text) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        (":x=1", "has no name"),
        ("search:random", "'random' must be key=value"),
        ("search:", "must be key=value"),
        ("search:a=1,a=2", "'a' is given twice"),
        ("search:as=Big Name", "must match"),
        ("search:attempts=0", "at least 1"),
        ("search:attempts=true", "at least 1"),
        ("search:attempts=many", "at least 1"),
    ],
)
def test_parse_refuses(text, message):
    with pytest.raises(AgentError, match=message):
        parse_spec(text)


def test_yaml_errors_have_lines_and_near_names(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("schema: 1\nname: Bad Name\nstrategi: a.py:A\nattempts: 0\n")
    with pytest.raises(SpecError) as raised:
        read_config(path)
    text = str(raised.value)
    assert f"{path}:3: strategi: unknown key — did you mean 'strategy'?" in text
    assert f"{path}:2: name" in text and f"{path}:4: attempts" in text and "'strategy'" in text
