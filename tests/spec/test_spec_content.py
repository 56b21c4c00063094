"""The content overlay: what is seen from where, which layer wins, and that no path leads out."""

import shutil
from pathlib import Path

import pytest

from harness.spec import content as content_module
from harness.spec.content import Content, Layer, shipped_root
from harness.spec.errors import ContentNotFound, GauntletError, SpecError

TASK = """\
schema: 1
name: {name}
reference: references/{name}.py:{name}
inputs: {{x: {{shape: [n]}}}}
cases: {{a: {{n: 4}}}}
"""


def add_task(root, name, body="return x"):
    (root / "tasks").mkdir(parents=True, exist_ok=True)
    (root / "suite/references").mkdir(parents=True, exist_ok=True)
    (root / "tasks" / f"{name}.yaml").write_text(TASK.format(name=name))
    (root / "suite/references" / f"{name}.py").write_text(f"def {name}(x):\n    {body}\n")


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "mine"
    add_task(root, "mytask")
    (root / "gauntlet.toml").write_text('schema = 1\nname = "Mine"\nresults = "out/res"\n')
    return root


def test_shipped_only(tmp_path):
    content = Content.discover(cwd=tmp_path)
    assert [layer.name for layer in content.layers] == ["shipped"] and content.project is None
    assert {"matmul", "softmax", "bias_gelu_residual", "two_matmul"} <= set(content.tasks())
    assert content.base == tmp_path and content.results == tmp_path / "results"
    assert list(content.tasks()) == sorted(content.tasks())


def test_a_folder_without_the_marker_is_not_looked_into(tmp_path):
    add_task(tmp_path, "stray")
    assert "stray" not in Content.discover(cwd=tmp_path).tasks()
    with pytest.raises(SpecError, match="no gauntlet.toml in .*schema = 1"):
        Content.discover(root=tmp_path)


def test_project_around_the_folder(project):
    deep = project / "a/b"
    deep.mkdir(parents=True)
    for content in (Content.discover(cwd=deep), Content.discover(root=project, cwd=project.parent)):
        assert [layer.name for layer in content.layers] == ["shipped", "project"]
        assert {"mytask", "softmax"} <= set(content.tasks())
        assert content.base == project and content.project.name == "Mine"
        assert content.results == project / "out/res"
        assert content.task("mytask").reference_source.endswith("return x\n")


def test_the_nearest_project_counts(project):
    inner = project / "inner"
    add_task(inner, "other")
    (inner / "gauntlet.toml").write_text("")
    content = Content.discover(cwd=inner)
    assert "other" in content.tasks() and "mytask" not in content.tasks()
    assert content.project.name == "inner" and content.results == inner / "results"


def test_project_overrides_and_shipped_tasks_keep_their_reference(project):
    add_task(project, "softmax", "return 2 * x")
    add_task(project, "matmul", "return None")
    (project / "tasks/matmul.yaml").unlink()
    content = Content.discover(cwd=project)
    assert content.tasks()["softmax"] == project / "tasks/softmax.yaml"
    assert "2 * x" in content.task("softmax").reference_source
    assert "torch.matmul" in content.task("matmul").reference_source
    assert content.find("references/matmul.py") == project / "suite/references/matmul.py"
    assert content.find("references/two_matmul.py").is_relative_to(shipped_root())


def test_project_task_may_use_a_shipped_reference(project):
    text = TASK.format(name="mine2").replace("references/mine2.py:mine2", "references/softmax.py:softmax")
    (project / "tasks/mine2.yaml").write_text(text)
    assert "torch.softmax" in Content.discover(cwd=project).task("mine2").reference_source


def test_find_every_kind(project):
    for relative in ("templates/t.cpp", "solutions/s.py", "agents/a.yaml", "agents/a.py", "leaderboard/x/page.html"):
        path = Layer("project", project).path(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        assert Content.discover(cwd=project).find(relative) == path
    assert (project / "suite/templates/t.cpp").exists() and (project / "leaderboard/x/page.html").exists()
    assert Content.discover(cwd=project).agents()["a"] == project / "agents/a.yaml"


def test_not_found_says_what_exists(project):
    content = Content.discover(cwd=project)
    with pytest.raises(FileNotFoundError, match="did you mean 'references/mytask.py'") as error:
        content.find("references/mytaks.py")
    assert isinstance(error.value, GauntletError)
    with pytest.raises(ContentNotFound, match="did you mean 'references'"):
        content.find("reference/x.py")
    with pytest.raises(ContentNotFound, match="no task is called 'sofmax' — did you mean 'softmax'"):
        content.task("sofmax")
    with pytest.raises(ContentNotFound, match="no suite is called 'smoek' — did you mean 'smoke'"):
        content.suite("smoek")


@pytest.mark.parametrize(
    "relative",
    ["../x", "references/../../x", "/etc/passwd", "references/..", "", "templates\\x", "C:/x", "references/a\0b"],
)
def test_find_takes_plain_paths_only(project, relative):
    with pytest.raises(SpecError, match="plain and relative"):
        Content.discover(cwd=project).find(relative)


def test_symlinks_may_not_leave_their_layer(project, tmp_path):
    (tmp_path / "secret.py").write_text("def secret(x): pass\n")
    (project / "suite/references/link.py").symlink_to(tmp_path / "secret.py")
    (project / "suite/references/inner.py").symlink_to(project / "suite/references/mytask.py")
    (project / "suite/templates").symlink_to(tmp_path)
    content = Content.discover(cwd=project)
    for relative in ("references/link.py", "templates/secret.py"):
        with pytest.raises(SpecError, match="leads out of"):
            content.find(relative)
    assert content.find("references/inner.py").read_text().startswith("def mytask")
    (project / "tasks/bad.yaml").symlink_to(tmp_path / "secret.py")
    with pytest.raises(SpecError, match="leads out of"):
        content.tasks()


def test_select(project):
    content = Content.discover(cwd=project)

    def chosen(*patterns):
        return [task.name for task in content.select(patterns)]

    assert chosen("softmax", "matmu?", "my*") == ["softmax", "matmul", "mytask"]
    assert chosen("two_matmul", "*o_matmul", "matmul")[:2] == ["two_matmul", "matmul"]
    assert len(chosen("two_matmul", "*matmul", "matmul")) == len(chosen("*matmul"))
    assert len(chosen("*")) == len(set(chosen("*"))) == len(content.tasks())
    assert chosen(str(project / "tasks/mytask.yaml"), "mytask") == ["mytask"]
    with pytest.raises(ContentNotFound, match="no task matches 'matmull' — did you mean 'matmul'"):
        content.select(["softmax", "matmull"])
    with pytest.raises(ContentNotFound, match="no task matches 'z\\*'"):
        content.select(["z*"])


def test_task_by_path_and_the_name_of_its_file(project, tmp_path):
    content = Content.discover(cwd=project)
    assert content.task(project / "tasks/mytask.yaml") == content.task("mytask")
    shutil.move(project / "tasks/mytask.yaml", project / "tasks/renamed.yaml")
    with pytest.raises(SpecError, match="'mytask' must be the file's name, 'renamed'"):
        content.task("renamed")


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('# c\nresult = "x"\n', 2, "result: unknown key — did you mean 'results'?"),
        ("schema = 2\n", 1, "must be 1, not 2"),
        ("schema = 1\n\nresults = 5\n", 3, "results: must be text"),
        ('name = ""\n', 1, "name: must be text"),
        ("schema = 1\nname = \n", 2, ""),
        ("schema = 1\nschema = 1\n", 2, ""),
    ],
)
def test_project_file_mistakes(project, monkeypatch, fallback, text, line, words):
    if fallback:
        monkeypatch.setattr(content_module, "_toml", content_module._plain_toml)
    (project / "gauntlet.toml").write_text(text)
    with pytest.raises(SpecError) as error:
        Content.discover(cwd=project)
    assert error.value.file == str(project / "gauntlet.toml") and words in str(error.value)
    assert error.value.line == line


def test_project_file_without_a_toml_parser(project, monkeypatch):
    monkeypatch.setattr(content_module, "_toml", content_module._plain_toml)
    (project / "gauntlet.toml").write_text("# mine\nschema = 1 # one\nname = 'N'\nresults = \"/abs/res\"\n")
    content = Content.discover(cwd=project)
    assert content.project.name == "N" and content.results == Path("/abs/res")


def test_installed_content_comes_from_inside_the_package(tmp_path, monkeypatch):
    package = tmp_path / "site/harness"
    add_task(package / "_content", "packed")
    (package / "spec").mkdir(parents=True)
    monkeypatch.setattr(content_module, "__file__", str(package / "spec/content.py"))
    assert list(Content.discover(cwd=tmp_path).tasks()) == ["packed"]
    assert Content.discover(cwd=tmp_path).task("packed").name == "packed"
    shutil.rmtree(package / "_content")
    with pytest.raises(SpecError, match="reinstall"):
        Content.discover(cwd=tmp_path)


def test_suites(project):
    content = Content.discover(cwd=project)
    smoke = content.suite("smoke")
    assert [t.name for t in smoke.resolve(content)] == ["matmul", "softmax", "bias_gelu_residual", "two_matmul"]
    (project / "suite/suites").mkdir()
    mine = project / "suite/suites/mine.yaml"
    mine.write_text("schema: 1\nname: mine\nversion: 3\ntasks: ['my*', softmax]\n")
    suite = Content.discover(cwd=project).suite("mine")
    assert suite.version == 3 and [t.name for t in suite.resolve(content)] == ["mytask", "softmax"]
    for text, line, words in [
        ("schema: 1\nname: other\nversion: 1\ntasks: [x]\n", 2, "must be the file's name, 'mine'"),
        ("schema: 1\nname: mine\nversion: one\ntask: [x]\n", 4, "did you mean 'tasks'"),
        ("schema: 1\nname: mine\nversion: 0\ntasks: [x]\n", 3, "greater than or equal to 1"),
        ("schema: 1\nname: mine\nversion: 1\ntasks: []\n", 4, "at least 1 item"),
    ]:
        mine.write_text(text)
        with pytest.raises(SpecError, match=words) as error:
            content.suite("mine")
        assert line in [problem.line for problem in error.value.problems]
