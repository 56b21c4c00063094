"""Who does the work: the candidate's own kernel, or a library it calls? Shown beside a score, never inside it.

A heuristic, and open to deceit: it reads the source, and believes what PyTorch's profiler says in the candidate's own
process. Nothing that is paid for a score rests on it, unless a task forbids a class.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import Any

from harness.spec.candidate import Candidate
from harness.spec.verdict import Classification

CALLS = 3
MIXED, LIBRARY = 0.1, 0.9  # shares of a call's time in library operations between which the work is mixed
# Operations that move or name data and compute nothing.
_MOVING = re.compile(r"aten::(empty|zeros|ones|full|new_|view|_?reshape|t\b|transpose|permute|slice|select|as_strided|expand"
                     r"|squeeze|unsqueeze|detach|alias|clone|copy_|contiguous|resize|narrow|split|chunk|unbind|flatten|unfold"
                     r"|to\b|_to_copy|lift|item|_local_scalar|is_|resolve_|result_type|fill_|zero_|stack|cat|_neg_view|arange"
                     r"|set_|_has_|empty_like|numpy_T|movedim|swapaxes|diagonal|index_put_|fft_)")
_COMPILED = re.compile(r"(Torch-Compiled Region|CompiledFxGraph|graph_\d|## Call)|^cpp_fused_|TorchDynamo|AOTDispatcher|Inductor")
_OWN_PYTHON = {"triton", "ctypes", "cffi", "numba", "cuda", "cupy", "tilelang", "cutlass", "pallas"}
_OWN_CALLS = {"load_inline", "cpp_extension", "CDLL", "jit_compile", "dlopen", "cdll"}
_LIBRARY_CPP = re.compile(r"\b(cblas_\w+|sgemm_|dgemm_|mkl_\w+|dnnl|onednn|cudnn\w*|cublas\w*|at::\w+|torch::\w+|Eigen::)|\bdlopen\b")
_LOOP = re.compile(r"\b(for|while)\s*\(")
_COMPUTING_NAMES = {
    "matmul", "mm", "bmm", "addmm", "einsum", "linear", "conv1d", "conv2d", "conv3d", "softmax", "log_softmax", "gelu", "relu",
    "layer_norm", "rms_norm", "group_norm", "batch_norm", "cumsum", "topk", "sort", "cross_entropy", "embedding",
    "scaled_dot_product_attention", "sum", "mean", "var", "norm", "exp", "sin", "cos", "tanh", "sigmoid", "logsumexp", "max",
    "min", "argmax", "rsqrt", "sqrt", "pow", "erf", "baddbmm", "gather", "index_select", "dot", "mv", "inner", "outer",
}


def classify(candidate: Candidate, profile: dict | None, reference: dict | None) -> Classification:
    """The class of a candidate. profile, reference: what `harness.contestant.profile` says of it and of eager, if known.

    reference: it calls the very operations, on the same shapes, that the reference calls · library: all of the work is
    PyTorch's, a compiler's or another library's · mixed: its own kernels and a library's · authored: its own.
    """
    if candidate.language != "python":
        return _of_cpp(candidate.source)
    own, library = _of_python(candidate.source)
    mine = _operations(profile)
    if mine is None:
        kind = "mixed" if own and library else "authored" if own else "library"
        return Classification(kind=kind, by="source", why=_words(own, library))
    computing, share, compiled = mine
    if compiled and not own:
        return Classification(kind="library", by="profile", library_share=1.0, why="torch.compile made its kernels")
    asked = _operations(reference)
    if not own and asked is not None and asked[0] and not asked[0] - computing:
        names = ", ".join(sorted({name.removeprefix("aten::") for name, _ in asked[0]}))
        return Classification(kind="reference", by="profile", library_share=1.0,
                              why=f"calls what the reference calls, on the same shapes: {names}")
    if not own:
        return Classification(kind="library", by="profile", library_share=share,
                              why="calls " + ", ".join(sorted({n.removeprefix("aten::") for n, _ in computing})[:8])
                              if computing else "no operation of PyTorch's that is seen, and no kernel of its own: numpy, or other threads")
    kind = "authored" if share < MIXED else "mixed" if share <= LIBRARY else "library"
    return Classification(kind=kind, by="profile", library_share=share, why=_words(own, library))


def _words(own: set[str], library: set[str]) -> str:
    parts = [f"kernels by {', '.join(sorted(own))}" if own else "no kernel of its own",
             f"calls {', '.join(sorted(library)[:8])}" if library else ""]
    return "; ".join(filter(None, parts))


def _of_cpp(source: str) -> Classification:
    code = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"", " ", source, flags=re.DOTALL)
    library = sorted({match.group(0) for match in _LIBRARY_CPP.finditer(code)})
    if not library:
        return Classification(kind="authored", by="source", why="C++ that calls no numerical library")
    loops = len(_LOOP.findall(code))
    return Classification(kind="mixed" if loops else "library", by="source",
                          why=f"calls {', '.join(library[:8])}" + (f"; {loops} loops of its own" if loops else ""))


def _of_python(source: str) -> tuple[set[str], set[str]]:
    """(ways in which it has kernels of its own, computing operations it calls), by reading it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    own, library = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):  # a Triton kernel's own tl.sum is nobody's library
            names = [_name(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
            if any(name.split(".")[-1] in ("jit", "autotune", "njit", "kernel") and name.split(".")[0] != "torch"
                   for name in names):
                own.add(names[-1].split(".")[0])
                for inner in ast.walk(node):
                    inner.skipped = True
    for node in ast.walk(tree):
        if getattr(node, "skipped", False):
            continue
        if isinstance(node, ast.Call):
            name = _name(node.func)
            last = name.split(".")[-1]
            if last in _OWN_CALLS or name.startswith("ctypes.CDLL"):
                own.add(last)
            elif last in _COMPUTING_NAMES and name.split(".")[0] not in ("tl", "math", "np", "numpy"):
                library.add(last)
            elif name == "torch.compile":
                library.add("torch.compile")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            library.add("matmul")
    return own, library


def _name(node: ast.AST) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *reversed(parts)])


def _operations(profile: Any) -> tuple[Counter, float, bool] | None:
    """(outermost computing operations with their shapes, share of the time in computing ones, whether compiled code
    ran) of a profile; None where there is none, or where it is not what a profile looks like."""
    if not isinstance(profile, dict) or not isinstance(profile.get("rows"), list):
        return None
    computing: Counter = Counter()
    spent, compiled = 0.0, False
    for row in profile["rows"]:
        if not (isinstance(row, list) and len(row) == 5 and isinstance(row[0], str) and isinstance(row[1], str)
                and all(isinstance(v, (int, float)) for v in row[2:])):
            return None
        name, shapes, outermost, count, us = row
        compiled = compiled or bool(_COMPILED.search(name))
        if name.startswith("aten::") and not _MOVING.match(name):
            spent += us
            if outermost:
                computing[name, shapes] += count
    us = profile.get("us")
    total = float(us) if isinstance(us, (int, float)) and us > 0 else 0.0
    return computing, min(1.0, spent / total) if total else 0.0, compiled
