"""`coconet.__all__` is the public surface, no more and no less.

Ruff keeps it sorted (RUF022); test_import_time says what `import coconet` may load.
"""

from __future__ import annotations

from types import ModuleType

import coconet


def test_all_has_no_doubles():
    assert len(set(coconet.__all__)) == len(coconet.__all__)


def test_every_name_of_all_exists():
    missing = [name for name in coconet.__all__ if not hasattr(coconet, name)]
    assert not missing


def test_nothing_public_is_left_out_of_all():
    public = {
        name
        for name, value in vars(coconet).items()
        if not name.startswith("_")
        and name not in {"annotations", "TYPE_CHECKING"}  # not ours
        and not isinstance(value, ModuleType)
    }
    assert public <= set(coconet.__all__)


def test_every_public_object_is_documented():
    undocumented = [
        name
        for name in coconet.__all__
        if callable(value := getattr(coconet, name)) and not value.__doc__
    ]
    assert not undocumented
