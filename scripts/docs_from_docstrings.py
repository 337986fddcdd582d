"""Write docs/schedules.md from the docstrings of the transformations.

python scripts/docs_from_docstrings.py [--check]
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from coconet.schedule import TRANSFORMS
from coconet.schedule.library import library

PAGE = Path(__file__).parents[1] / "docs" / "schedules.md"

HEAD = """\
# Schedules

A schedule is a program and the steps that transform it. Each step is checked before it
is applied and its result verified after; a step that is not legal raises
`ScheduleError` with the values, the rule and what would be legal. While scheduling you
hold a `Draft`: its verbs append steps, handles from before a step stay good, `undo()`
takes the last one back, and `draft.schedule` is the frozen value.

```python
import coconet as cc
from coconet.workloads.optimizers import adam

s = adam.schedule()
rs, ag = s.split("avg")
region, tail = s.reorder(ag, ["m1", "v1", "p1"])
s.slice_state("m", "v")
s.dead("m1_ag", "v1_ag")
s.fuse(rs, region, tail)
print(s)
```

`cc.library(adam)` has ready ones, each written with these verbs alone.

*This page is made by `scripts/docs_from_docstrings.py` from the code.*
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for transform in TRANSFORMS:
        text = inspect.cleandoc(transform.__doc__ or "")
        parts.append(f"## {transform.name}\n\n```text\n{text}\n```\n")
    ready = inspect.cleandoc(library.__doc__ or "")
    parts.append(f"## The library\n\n```text\n{ready}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or with --check say whether it is up to date."""
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
