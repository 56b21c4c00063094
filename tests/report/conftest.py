from pathlib import Path

import pytest
from report_records import competition

from harness.report.site import build_site

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "leaderboard"


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> Path:
    """Published results of a small competition; read only."""
    return competition(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def site(results, tmp_path_factory) -> Path:
    """The site built from `results`; read only."""
    return build_site(results, tmp_path_factory.mktemp("site") / "out", TEMPLATES).parent


@pytest.fixture(scope="session")
def templates() -> Path:
    return TEMPLATES
