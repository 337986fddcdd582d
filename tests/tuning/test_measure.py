"""The tuner's own tensors, knobs and clock; what a waiting user sees."""

from __future__ import annotations

import io
import signal
import threading

import numpy as np
import pytest

import coconet as cc
from coconet.backends.c.words import Knobs
from coconet.lower import lower
from coconet.runtime.exchange import Exchange
from coconet.tuning.measure import (
    COLD_S,
    MOST_CALLS,
    Arguments,
    Entrant,
    Stopwatch,
    Track,
    knobs_text,
    variants,
)
from coconet.tuning.progress import Progress, noted_interrupt
from coconet.workloads.optimizers import adam, sgd


def test_variants_differ_from_the_usual_in_one_number():
    found = variants(Knobs(), 1, by_inbox=True)
    assert set(found) - set(variants(Knobs(), 1)) == {Knobs(inbox_bytes=0)}
    texts = [knobs_text(knobs) for knobs in found]
    assert len(set(texts)) == len(texts)
    assert all(text.count("=") == 1 and "threads" not in text for text in texts)
    threads = {knobs.threads for knobs in variants(Knobs(), 6)}
    assert threads == {0, 1, 2, 4}
    assert knobs_text(Knobs()) == ""


def test_arguments_fit_the_plan_and_lie_in_symmetric_memory(alone):
    arguments = Arguments(alone, {"N": 1000}, {"lr": 0.125})
    plan = lower(cc.library(adam)["fused_sliced"].result, 1)
    tensors = arguments.tensors(plan)
    assert list(tensors) == ["g", "p", "m", "v"]
    for array in tensors.values():
        assert array.shape == (1000,)
        assert alone.pool.offset_of(array.ctypes.data, array.nbytes) is not None
        assert np.isfinite(array).all()
    assert arguments.tensors(plan)["g"] is tensors["g"]
    assert arguments.scalars(plan) == {
        **{"lr": 0.125, "beta1": 0.5, "beta2": 0.5, "eps": 0.5, "t": 1}
    }
    tensors["p"][:] = -1
    arguments.refill()
    assert (tensors["p"] > 0).all()


def test_turns_call_often_where_calls_are_short(alone):
    now_s, calls = 0.0, 0
    plan = lower(sgd, 1)

    def clock() -> float:
        return now_s

    exchange = Exchange(alone)
    watch = Stopwatch(exchange, clock)
    track = Track(
        alone,
        exchange,
        watch,
        plans={0: plan},
        arguments=Arguments(alone, {"N": 10}, {}),
        sizes={"N": 10},
    )
    entrant = Entrant(0)
    assert track.prepare(entrant) == ""
    for call_s, expected in ((1e-3, 1 + 1 + 20), (1e-9, 1 + 20), (1.0, 1 + MOST_CALLS)):
        calls = 0

        def step(call_s: float = call_s) -> None:
            nonlocal now_s, calls
            now_s += call_s
            calls += 1

        track._ready[entrant] = step
        assert track.turn(entrant) == pytest.approx(call_s)
        assert calls == expected
    assert track.turn(entrant) == pytest.approx(1.0)
    assert watch.elapsed_s > COLD_S


def test_the_slowest_rank_counts_and_time_goes_on(alone):
    watch = Stopwatch(Exchange(alone), iter(range(100)).__next__)
    assert watch.time(lambda: None, 4) == pytest.approx(0.25)
    assert watch.elapsed_s == 3
    assert not watch.was_interrupted
    watch.has_interrupt = lambda: True
    watch.lap()
    assert watch.was_interrupted


def test_progress_is_one_line_that_is_cleared():
    stream = io.StringIO()
    progress = Progress(stream)
    progress.show("a long text")
    progress.show("short")
    progress.close()
    progress.close()
    shown = stream.getvalue().split("\r")
    assert shown == ["a long text", "short      ", "     ", ""]
    silent = Progress(None)
    silent.show("nothing")
    silent.close()


def test_the_first_interrupt_is_noted_and_the_second_raises():
    before = signal.getsignal(signal.SIGINT)
    with noted_interrupt() as noted:
        assert not noted()
        signal.raise_signal(signal.SIGINT)
        assert noted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_interrupts_alone():
    found: list[bool] = []

    def use() -> None:
        with noted_interrupt() as noted:
            found.append(noted())

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [False]
    assert signal.getsignal(signal.SIGINT) is before
