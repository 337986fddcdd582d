"""How a function, its arguments and its results reach another interpreter.

Values travel as one line of JSON followed by the raw bytes of their arrays. A function
travels as its name and the file to import it from or, from a notebook, as source with
the globals that it uses. Nothing is pickled.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import operator
import sys
import types
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, cast

__all__ = ["dumps", "is_importing_main", "loads", "reference", "resolve"]

# the name under which the caller's script is imported, so that its
# `if __name__ == "__main__"` does not run
MAIN = "coconet_main"
LOADING = "loading"

PLAIN = (type(None), bool, int, float, str)


def dumps(value: object) -> bytes:
    """Encode None, numbers, str, bytes, numpy arrays, and lists, tuples, dicts of them.

    Raises TypeError for anything else.
    """
    raw = bytearray()
    line = json.dumps(_encode(value, raw)).encode()
    return b"\n".join([line, raw])


def loads(blob: bytes) -> object:
    """Decode what `dumps` encoded; arrays are fresh and writable.

    Raises ValueError if these are not whole bytes of `dumps`.
    """
    line, _, raw = blob.partition(b"\n")
    return _decode(json.loads(line), memoryview(raw))


def _encode(value: object, raw: bytearray) -> object:
    if type(value) in PLAIN:
        return value
    if isinstance(value, list):
        return [_encode(x, raw) for x in cast("list[object]", value)]
    if isinstance(value, tuple):
        return {"tuple": [_encode(x, raw) for x in cast("tuple[object, ...]", value)]}
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {"dict": [[_encode(k, raw), _encode(v, raw)] for k, v in items]}
    if isinstance(value, bytes):
        return {"bytes": _append(value, raw)}
    # whoever holds an array has imported numpy; it is not worth an import otherwise
    if (numpy := sys.modules.get("numpy")) and isinstance(
        value, numpy.ndarray | numpy.generic
    ):
        kind = "array" if isinstance(value, numpy.ndarray) else "scalar"
        return {kind: _encode_array(value, raw)}
    raise TypeError(
        f"{type(value).__module__}.{type(value).__qualname__} does not travel between "
        "processes; numbers, str, bytes, numpy arrays, lists, tuples and dicts do"
    )


def _encode_array(value: Any, raw: bytearray) -> list[object]:
    dtype = value.dtype.newbyteorder("=")
    if dtype.kind not in "biufc" and dtype.type.__module__ != "ml_dtypes":
        raise TypeError(f"arrays of dtype {value.dtype} do not travel")
    content = value.astype(dtype, copy=False).tobytes()
    return [*_append(content, raw), dtype.name, list(value.shape)]


def _append(content: bytes, raw: bytearray) -> list[int]:
    raw += content
    return [len(raw) - len(content), len(content)]


def _decode(form: Any, raw: memoryview) -> object:
    if isinstance(form, list):
        return [_decode(x, raw) for x in cast("list[object]", form)]
    match form:
        case {"tuple": items}:
            return tuple(_decode(x, raw) for x in items)
        case {"dict": items}:
            return {_decode(k, raw): _decode(v, raw) for k, v in items}
        case {"bytes": [start, length]}:
            return bytes(raw[start : start + length])
        case {"array": [start, length, dtype, shape]}:
            return _decode_array(raw[start : start + length], dtype, shape)
        case {"scalar": [start, length, dtype, shape]}:
            return _decode_array(raw[start : start + length], dtype, shape)[()]
        case _:
            return form


def _decode_array(content: memoryview, name: str, shape: Sequence[int]) -> Any:
    import ml_dtypes
    import numpy

    dtype = numpy.dtype(getattr(ml_dtypes, name, name))
    return numpy.frombuffer(content, dtype).reshape(shape).copy()


def reference(function: Callable[..., object]) -> dict[str, object]:
    """Say where another interpreter finds a function: a value for `dumps`.

    Raises ValueError if it cannot be found from elsewhere.
    """
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"not a function of Python: {function!r}")
    home = sys.modules[function.__module__]
    file = getattr(home, "__file__", None)
    if file is None and home.__name__ == "__main__":
        return _source_of(function)
    try:
        found = operator.attrgetter(function.__qualname__)(home)
    except AttributeError:
        found = None
    if found is not function:
        raise ValueError(
            f"{function.__qualname__} cannot be imported from {home.__name__}; "
            "define it at the top level of a module"
        )
    name = home.__name__
    if name == "__main__":
        name = home.__spec__.name if home.__spec__ else MAIN  # a spec: `python -m name`
    return {
        "module": name,
        "file": str(Path(file).absolute()) if file else "",
        "name": function.__qualname__,
    }


def resolve(found: dict[str, Any]) -> Callable[..., object]:
    """Return the function that a reference names."""
    if "source" in found:
        home = _module_from_source(found)
    else:
        home = _import(found["module"], found["file"])
    try:
        return operator.attrgetter(found["name"])(home)
    except AttributeError:
        raise ImportError(
            f"importing {found['file'] or found['module']} does not define "
            f"{found['name']}; define it at the top level, above any "
            '`if __name__ == "__main__":`'
        ) from None


def _import(name: str, file: str) -> types.ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    if name != MAIN:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if not file or not (name == missing or name.startswith(missing + ".")):
                raise
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {file}")
    home = importlib.util.module_from_spec(spec)
    sys.modules[name] = home
    spec.loader_state = LOADING
    spec.loader.exec_module(home)
    spec.loader_state = None
    return home


def is_importing_main() -> bool:
    """Whether the caller's script is being imported, to find a function in it."""
    spec = getattr(sys.modules.get(MAIN), "__spec__", None)
    return spec is not None and spec.loader_state == LOADING


class _Source(importlib.abc.InspectLoader):
    """Loads a module from text, so that tracebacks show its lines."""

    def __init__(self, source: str) -> None:
        self.source = source

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_code(self, fullname: str) -> types.CodeType:
        # tracebacks ask for the source of files, but not of "<string>"
        return self.source_to_code(self.source, "notebook source")


def _source_of(function: types.FunctionType) -> dict[str, object]:
    """Collect the source of a notebook's function and of what it uses there."""
    import inspect
    import textwrap

    parts: dict[str, str] = {}
    modules: dict[str, str] = {}
    values: dict[str, object] = {}
    names: dict[str, list[str]] = {}

    def collect(one: types.FunctionType) -> None:
        if one.__closure__ or "<" in one.__qualname__:
            raise ValueError(
                f"{one.__qualname__} is local to a function or a lambda; "
                "define it with `def` at the top level and pass what it needs"
            )
        parts[one.__name__] = ""  # before its callees: they may call it
        for name in _globals_used(one.__code__):
            if name in parts or name not in one.__globals__:
                continue
            value: object = one.__globals__[name]
            home, known = getattr(value, "__module__", None), _name_of(value)
            if isinstance(value, types.ModuleType):
                modules[name] = value.__name__
            elif isinstance(value, types.FunctionType) and home == "__main__":
                collect(value)
            elif home and home != "__main__" and known:
                names[name] = [home, known]
            else:
                values[name] = _checked(name, value)
        try:
            parts[one.__name__] = textwrap.dedent(inspect.getsource(one))
        except OSError:
            raise ValueError(
                f"the source of {one.__name__} is not known here; put it in a file"
            ) from None

    collect(function)
    return {
        "source": "\n\n".join(parts.values()),
        "name": function.__qualname__,
        "modules": modules,
        "names": names,
        "values": values,
    }


def _checked(name: str, value: object) -> object:
    try:
        dumps(value)
    except TypeError as error:
        raise TypeError(
            f"the function uses the global {name}: {error}; "
            "import or make it inside the function"
        ) from None
    return value


def _name_of(value: object) -> str | None:
    return getattr(value, "__qualname__", None)


def _globals_used(code: types.CodeType) -> Generator[str]:
    import dis

    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_used(constant)


def _module_from_source(found: dict[str, Any]) -> types.ModuleType:
    spec = importlib.util.spec_from_loader(MAIN, _Source(found["source"]))
    if spec is None or spec.loader is None:
        raise ImportError("cannot load source")
    home = importlib.util.module_from_spec(spec)
    sys.modules[MAIN] = home
    known = vars(home)
    for name, module in found["modules"].items():
        known[name] = importlib.import_module(module)
    for name, (module, attribute) in found["names"].items():
        place = importlib.import_module(module)
        known[name] = operator.attrgetter(attribute)(place)
    known.update(found["values"])
    spec.loader.exec_module(home)
    return home
