"""Kernel files: what is called, and with which flags, is told from the file itself."""

import pytest

from harness.agents.kernel_file import kernel_files, read_kernel
from harness.spec.errors import SpecError


@pytest.mark.parametrize(
    "name, text, entry, flags",
    [
        ("a.cpp", "#include <cmath>\n", "kernel", []),
        ("a.cpp", "// Fast.\n// entry: go\n// flags: -O2 -DX=1\nint x;\n// entry: late\n", "go", ["-O2", "-DX=1"]),
        ("a.cpp", "#define X 1\n// entry: late\n", "kernel", []),
        ("a.py", "# entry: go\ndef go(x): ...\n", "go", []),
        ("a.py", "#!/usr/bin/env python\n\n#entry: go\n", "go", []),
        ("a.py", "import torch\n# entry: late\n", "kernel", []),
        ("a.py", "class ModelNew(object):\n  pass\n", "ModelNew", []),
        ("a.py", "class ModelNew(object):\n  pass\ndef kernel(x): ...\n", "kernel", []),
        ("a.py", "class ModelNewer:\n  pass\n", "kernel", []),
    ],
)
def test_entry_and_flags(tmp_path, name, text, entry, flags):
    (tmp_path / name).write_text(text)
    candidate = read_kernel(tmp_path / name)
    assert (candidate.entry, candidate.flags, candidate.source, candidate.note) == (entry, flags, text, name)
    assert candidate.language == {"cpp": "cpp", "py": "python"}[name.split(".")[1]]
    assert read_kernel(tmp_path / name, entry="other").entry == "other"


def test_refuses_other_files_and_bad_entries(tmp_path):
    (tmp_path / "a.cu").write_text("")
    with pytest.raises(SpecError, match="neither Python nor C"):
        read_kernel(tmp_path / "a.cu")
    (tmp_path / "a.py").write_text("# entry: a.b\n")
    with pytest.raises(SpecError, match="a.py: entry 'a.b' must be a plain name"):
        read_kernel(tmp_path / "a.py")
    with pytest.raises(SpecError, match="cannot be read"):
        read_kernel(tmp_path / "b.py")


def test_folder_listing_is_sorted_and_skips_what_is_no_kernel(tmp_path):
    for name in ("b.py", "a.cpp", "_c.py", ".d.py", "e.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "f.py").mkdir()
    assert [p.name for p in kernel_files(tmp_path)] == ["a.cpp", "b.py"]
