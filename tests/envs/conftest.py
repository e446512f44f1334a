"""Hide and seek is one large unit: what compiles it is shared, and kept short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import hardly_optimised


@pytest.fixture(autouse=True, scope="module")
def quick_builds(request: pytest.FixtureRequest) -> Iterator[None]:
    """All tests of hide and seek build with fewer optimisations; test_executors.py shows the same bits with all."""
    if not request.module.__name__.rpartition(".")[2].startswith("test_hideseek"):
        yield
        return
    with hardly_optimised():
        yield
