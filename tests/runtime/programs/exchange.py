"""Exchanges between ranks: rows, messages of any length, agreement and its lack."""

from __future__ import annotations

from typing import Any

import coconet as cc
from coconet.errors import RanksDisagree
from coconet.runtime.exchange import Exchange

LENGTHS = (0, 1, 7, 64, 65, 100_000)


def everything() -> dict[str, Any]:
    """Run on one rank; returns what was found, of which the test knows the right."""
    world = cc.init()
    exchange = Exchange(world)
    mine, everybody = bytes([65 + world.rank]), range(world.size)
    wrong = 0
    for length in LENGTHS:
        rows = exchange.rows(mine * length)
        wrong += rows != [bytes([65 + r]) * length for r in everybody]
        messages = exchange.all_gather(mine * (length * world.rank))
        wrong += messages != [bytes([65 + r]) * (length * r) for r in everybody]
        wrong += exchange.from_rank_0(mine * length) != b"A" * length
    exchange.agree("the plan", "one\ntwo")
    return {"wrong": wrong, "errors": [_differ(exchange), *_unlike(exchange)]}


def _differ(exchange: Exchange) -> dict[str, Any]:
    rank = cc.init().rank
    try:
        exchange.agree("the plan", f"one\n{'two' if rank != 1 else 'three'}")
    except RanksDisagree as error:
        return {"what": error.what, "got": error.got, "ranks": list(error.ranks)}
    return {}


def _unlike(exchange: Exchange) -> list[dict[str, Any]]:
    """Rows unlike in length, or in what they are for, are refused by every rank.

    The world goes on.
    """
    is_odd = cc.init().rank == 1
    found: list[dict[str, Any]] = []
    for row, what in (
        (b"x" * (3 + is_odd), "an exchange"),
        (b"xyz", "a vote" if is_odd else "an exchange"),
    ):
        try:
            exchange.rows(row, what)
        except RanksDisagree as error:
            again = exchange.rows(b"again")[0].decode()
            found.append({"what": error.what, "got": error.got, "again": again})
    return found
