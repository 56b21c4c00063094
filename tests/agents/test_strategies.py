"""The shipped agents, driven by hand: what they propose, and that they stop."""

import pytest

from harness.agents.load import load_agent
from harness.agents.protocol import Agent, Attempt, History, View
from harness.spec.content import Content
from harness.spec.errors import GauntletError
from harness.spec.task import Task
from harness.spec.verdict import Estimate, JudgeResult, Status

CONTENT = Content.discover()
REFERENCE = "import torch\n\n\ndef double(x):\n    return x * 2\n"


def view(task="softmax", content=CONTENT, **changes):
    task = CONTENT.task(task) if isinstance(task, str) else task
    return View(task.model_copy(update=changes), {"name": "toy"}, seed=3, attempts=99, content=content.find)


def other_task():
    return Task.model_validate(
        {
            "name": "other",
            "reference": "r.py:double",
            "inputs": {"x": {"shape": ["n"]}},
            "cases": [{"name": "a", "dims": {"n": 4}}],
            "reference_source": REFERENCE,
            "reference_entry": "double",
        }
    )


def attempt(index, candidate, speedup=None):
    estimate = Estimate(value=speedup, low=speedup, high=speedup, n=1) if speedup else None
    result = JudgeResult(
        id=str(index),
        status=Status.ok if speedup else Status.wrong_output,
        depth="screen",
        device="cpu",
        task="t",
        task_hash="",
        candidate_hash=candidate.hash,
        speedup=estimate,
    )
    return Attempt(index, candidate, result)


def drive(agent, what, judge=lambda candidate: 1.0, limit=200):
    """Everything `agent` proposes until it stops, each judged by `judge`; every call sees a fresh history."""
    history = History()
    while len(history) < limit:
        proposals = list(agent.propose(what, History(list(history.attempts))))
        if not proposals:
            return history
        for candidate in proposals:
            history.attempts.append(attempt(len(history), candidate, judge(candidate)))
    raise AssertionError("it never stopped")


@pytest.mark.parametrize("name", ["eager", "torch-compile", "search", "handwritten", "files:from=."])
def test_shipped_agents_follow_the_protocol_and_have_descriptions(name):
    loaded = load_agent(name, CONTENT)
    assert isinstance(loaded.agent, Agent) and loaded.config.description
    assert loaded.name in CONTENT.agents()


def test_eager_answers_once_with_the_reference():
    history = drive(load_agent("eager", CONTENT).agent, view(other_task()))
    assert [(a.candidate.source, a.candidate.entry) for a in history.attempts] == [(REFERENCE, "double")]


DOUBLE = """
class Double(torch.nn.Module):
    def forward(self, x):
        return double(x)
"""
TIMES = """
class Times(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x * self.n


def get_init_inputs():
    return [2]
"""


@pytest.mark.parametrize("entry, extra", [("double", ""), ("Double", DOUBLE), ("Times", TIMES)])
def test_torch_compile_wraps_functions_and_modules(monkeypatch, entry, extra):
    torch = pytest.importorskip("torch")
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: asked.append(options) or function)
    agent = load_agent("torch-compile:mode=max-autotune,dynamic=true", CONTENT).agent
    what = view(other_task(), reference_source=REFERENCE + extra, reference_entry=entry)
    [only] = drive(agent, what).attempts
    space: dict = {}
    exec(only.candidate.source, space)
    assert only.candidate.entry == "kernel" and only.candidate.language == "python"
    assert space["kernel"](x=torch.ones(3)).tolist() == [2, 2, 2]
    assert asked == [{"mode": "max-autotune", "dynamic": True}]


@pytest.mark.parametrize("bad", ["torch-compile:mode=max-autotun", "torch-compile:dynamic=maybe"])
def test_torch_compile_refuses_what_torch_would(bad):
    with pytest.raises(GauntletError, match="max-autotune|true, false or null"):
        load_agent(bad, CONTENT)


def test_handwritten_offers_every_solution_once_by_name():
    agent = load_agent("handwritten", CONTENT).agent
    history = drive(agent, view("two_matmul"))
    assert [a.candidate.note for a in history.attempts] == ["reordered.cpp", "reordered.py"]
    assert list(agent.propose(view("two_matmul"), History(history.attempts[:1])))[0].note == "reordered.py"


@pytest.mark.parametrize("name", ["handwritten", "search", "files:from=tests"])
def test_no_material_is_no_answer(name):
    assert not len(drive(load_agent(name, CONTENT).agent, view(other_task())))


def test_files_finds_a_users_kernels(tmp_path):
    (tmp_path / "softmax.py").write_text("def kernel(x): ...\n")
    (tmp_path / "matmul.py").write_text("def kernel(a, b): ...\n")
    (tmp_path / "softmax").mkdir()
    (tmp_path / "softmax" / "b.cpp").write_text("// entry: go\n")
    (tmp_path / "softmax" / "copy.py").write_text("def kernel(x): ...\n")
    agent = load_agent(f"files:from={tmp_path}", CONTENT).agent
    history = drive(agent, view("softmax"))
    assert [(a.candidate.note, a.candidate.entry) for a in history.attempts] == [
        ("softmax.py", "kernel"),
        ("b.cpp", "go"),
    ]
    single = load_agent(f"files:from={tmp_path / 'matmul.py'}", CONTENT).agent
    assert [a.candidate.note for a in drive(single, view("softmax")).attempts] == ["matmul.py"]
    with pytest.raises(GauntletError, match="no such file or folder"):
        load_agent(f"files:from={tmp_path}/nowhere", CONTENT)
    (tmp_path / "k.cu").write_text("")
    with pytest.raises(GauntletError, match="a kernel file ends in .py or .cpp"):
        load_agent(f"files:from={tmp_path}/k.cu", CONTENT)


@pytest.mark.parametrize("sampler", ["exhaustive", "random", "hill_climb", "tpe"])
def test_search_proposes_every_configuration_once(sampler):
    agent = load_agent(f"search:sampler={sampler}", CONTENT).agent
    history = drive(agent, view("softmax"), lambda c: None if c.parameters["VEC"] == 16 else 1.0)
    hashes = [a.candidate.hash for a in history.attempts]
    assert len(hashes) == len(set(hashes)) == 58
    assert all("#define VEC" in a.candidate.source and a.candidate.language == "cpp" for a in history.attempts)


def test_search_follows_the_scores_and_can_be_resumed():
    agent = load_agent("search", CONTENT).agent
    judge = lambda c: 2.0 ** c.parameters["UNROLL"] + c.parameters["METHOD"]  # noqa: E731
    history = drive(agent, view("bias_gelu_residual"), judge)
    best = next(i for i, a in enumerate(history.attempts) if a.candidate.parameters["UNROLL"] == 4)
    assert best < 15  # two steps up, at most six neighbours at each
    again = load_agent("search", CONTENT).agent  # another process: the same history leads to the same proposal
    for n in (0, 1, 5, 20):
        [proposal] = again.propose(view("bias_gelu_residual"), History(history.attempts[:n]))
        assert proposal == history.attempts[n].candidate


def test_search_takes_a_space_of_the_users_own(tmp_path):
    (tmp_path / "k.cpp").write_text("int x = N;\n")
    path = tmp_path / "mine.space.yaml"
    path.write_text("schema: 1\ntask: other\ntemplate: k.cpp\nparameters: {N: {values: [1, 2], default: 1}}\n")
    agent = load_agent(f"search:space={path}", CONTENT).agent
    assert [a.candidate.parameters["N"] for a in drive(agent, view(other_task())).attempts] == [1, 2]
    assert not len(drive(agent, view("softmax")))
    with pytest.raises(FileNotFoundError, match="softmax"):
        list(load_agent("search:space=softmx", CONTENT).agent.propose(view("softmax"), History()))


def test_search_refuses_a_space_for_another_task(tmp_path):
    for name in ("tasks", "suite/templates"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "gauntlet.toml").write_text("schema = 1\n")
    (tmp_path / "suite/templates/k.cpp").write_text("")
    (tmp_path / "suite/templates/softmax.space.yaml").write_text(
        "schema: 1\ntask: softmac\ntemplate: k.cpp\nparameters: {N: {values: [1], default: 1}}\n"
    )
    with pytest.raises(GauntletError, match="'softmac' must be 'softmax'"):
        list(load_agent("search", CONTENT).agent.propose(view("softmax", Content.discover(tmp_path)), History()))
