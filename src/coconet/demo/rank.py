"""One rank of the demo: `python -m coconet.demo.rank FOLDER`, under the launcher.

The folder has `recipe.json`, and gets `rank-N.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from coconet.demo.facts import RankReport
from coconet.demo.recipe import Recipe
from coconet.settings import launch

__all__ = ["main"]


def main(folder: Path) -> None:
    """Do this rank's part, and write its report."""
    place = launch()
    if place is None:
        raise SystemExit("coconet.demo.rank is started by `coconet demo` only")
    recipe = Recipe(**json.loads((folder / "recipe.json").read_text()))
    _run(recipe, folder).write(folder / f"rank-{place.rank}.json")


def _run(recipe: Recipe, folder: Path) -> RankReport:
    if recipe.has_torch:
        from coconet.demo import training

        return training.run(recipe, folder)
    from coconet.demo import arrays

    return arrays.run(recipe)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
