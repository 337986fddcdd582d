"""Print a fact, or an error's fields, as one line of JSON."""

import json

from coconet.errors import RunError


def say(fact: object) -> None:
    print(json.dumps(fact), flush=True)


def error_of(error: RunError, **more: object) -> dict[str, object]:
    fields = {"what": error.what, "got": str(error.got), "need": str(error.need)}
    kind = type(error).__name__
    return {"kind": kind, "ranks": error.ranks, **fields, "fix": error.fix, **more}


def say_error(error: RunError, **more: object) -> None:
    say(error_of(error, **more))
