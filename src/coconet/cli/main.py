"""The command `coconet`: declares every subcommand, imports its module when it runs.

`--help` must stay fast, so nothing heavy is imported at the top of this file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from coconet.errors import CoconetError

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Target = Annotated[str, typer.Argument(metavar="FILE:PROGRAM")]
Ranks = Annotated[int, typer.Option("--ranks", min=1, help="Number of processes.")]
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=SIZE", help="A size, like N=4Mi; repeatable."),
]
State = Annotated[
    str, typer.Option("--slice-state", help="Inputs to keep in pieces, like m,v.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit; an error of ours is shown as its text, with exit 1."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        app(args=arguments, prog_name="coconet")
    except CoconetError as error:
        if "--traceback" in takewhile(lambda word: word.startswith("-"), arguments):
            raise
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"coconet {version('coconet')}")
        raise typer.Exit


def _rank_counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(word) for word in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise typer.BadParameter(
            "needs positive numbers like 2,3,4", param_hint="--ranks"
        )
    return counts


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


@app.callback()
def coconet(
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show tracebacks of coconet's errors.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version.",
        ),
    ] = False,
) -> None:
    """State a distributed computation once; schedule, verify, compile and run it."""


@app.command()
def demo(
    ranks: Ranks = 2,
    out: Annotated[
        Path, typer.Option("--out", help="Where the HTML report goes.")
    ] = Path("coconet-demo.html"),
    as_json: Json = False,
) -> None:
    """Train a small transformer with coconet's Adam, beside torch's."""
    from coconet.cli import demo as command

    raise typer.Exit(command.main(ranks=ranks, out=out, as_json=as_json))


@app.command()
def verify(
    target: Target,
    ranks: Annotated[
        str, typer.Option("--ranks", help="Numbers of processes, like 2,3,4.")
    ] = "2,3,4",
    as_json: Json = False,
) -> None:
    """Compare every schedule of a program with the reference."""
    counts = _rank_counts(ranks)
    from coconet.cli import verify as command

    raise typer.Exit(command.main(target, ranks=counts, as_json=as_json))


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    script: Annotated[str, typer.Argument(metavar="SCRIPT")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS")] = None,
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", min=1, help="Number of processes.")
    ] = 2,
    module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is a module, as for python -m.")
    ] = False,
    pin: Annotated[
        bool, typer.Option(help="Give each rank cores of its own, if there are enough.")
    ] = True,
) -> None:
    """Start a script in several processes on this host."""
    from coconet.cli import run as command

    words = ["-m", script] if module else [script]
    raise typer.Exit(command.main([*words, *(arguments or [])], ranks=ranks, pin=pin))


@app.command()
def bench(
    workload: Annotated[
        str,
        typer.Argument(help="adam, sgd, chain, never-slower, call or startup."),
    ],
    ranks: Ranks = 2,
    sizes: Annotated[
        str, typer.Option("--sizes", help="Elements, like 1Ki..64Mi or 1024,4096.")
    ] = "1Ki..64Mi",
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", help="f32, or bf16 with f32 master weights."),
    ] = None,
    engines: Annotated[
        str | None,
        typer.Option("--engines", help="Only these, like coconet,copy."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the records to this file.")
    ] = None,
) -> None:
    """Time a workload and every baseline, in turns."""
    from coconet.cli import bench as command

    chosen = engines.split(",") if engines else None
    raise typer.Exit(
        command.main(workload, ranks, sizes, json, dtype=dtype, engines=chosen)
    )


@app.command()
def show(
    target: Target,
    schedule: Annotated[
        str | None, typer.Option("--schedule", help="A schedule of the library.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show the plan.")] = False,
    code: Annotated[bool, typer.Option("--code", help="Show the C code.")] = False,
    why: Annotated[
        bool,
        typer.Option("--why", help="Show what is applied, what is refused, and costs."),
    ] = False,
    ranks: Annotated[
        int | None, typer.Option("--ranks", min=1, help="Number of processes.")
    ] = None,
    dim: Dims = None,
    slice_state: State = "",
    as_json: Json = False,
) -> None:
    """Print a program, and how a schedule runs it."""
    from coconet.cli import show as command

    raise typer.Exit(
        command.main(
            target,
            schedule=schedule,
            plan=plan,
            code=code,
            why=why,
            ranks=ranks,
            dims=dim or (),
            slice_state=_words(slice_state),
            as_json=as_json,
        )
    )


@app.command()
def tune(
    target: Target,
    ranks: Ranks = 2,
    dim: Dims = None,
    slice_state: State = "",
    time_box: Annotated[
        float, typer.Option("--time-box", help="Seconds for all timing.")
    ] = 8.0,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Schedules to look at.")
    ] = 64,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Time again what is remembered.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if no fusion is faster than none.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the schedule, as JSON, to this file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the fastest schedule of a program on this machine, and remember it."""
    from coconet.cli import tune as command

    raise typer.Exit(
        command.main(
            target,
            ranks=ranks,
            dims=dim or (),
            slice_state=_words(slice_state),
            time_box_s=time_box,
            limit=limit,
            fresh=fresh,
            strict=strict,
            out=out,
            as_json=as_json,
        )
    )


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine has, what it lacks, and the fix for each."""
    from coconet.cli import doctor as command

    raise typer.Exit(command.main(as_json=as_json))
