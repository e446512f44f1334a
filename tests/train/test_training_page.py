import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_example_on_the_page_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    results = {}
    exec(compile(example, str(PAGE), "exec"), results)
    assert results["obs"].shape == (33, 256, 4)
    assert (results["rewards"] == 1).all()
    assert results["ended"].any()
    assert results["advantages"].isfinite().all()
