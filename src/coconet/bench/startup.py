"""What coconet costs before it does anything: `import coconet` and `--help`."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from coconet.bench.machine import machine, versions
from coconet.bench.record import Record, record, write_json

__all__ = ["run_startup"]

_BARE = ("-c", "pass")
_COMMANDS = {"import": ("-c", "import coconet"), "help": ("-m", "coconet", "--help")}


def run_startup(json_path: Path | None = None, *, turns: int = 21) -> list[Record]:
    """Time both over a bare interpreter, in turns, print them, write the JSON.

    A sample is the difference to the bare interpreter of the same turn, so p10_ms may
    be negative where both cost the same.
    """
    for command in _COMMANDS.values():
        _run_s(command)  # leaves the byte code of every module in the disk cache
    samples: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    for _ in range(turns):
        bare_s = _run_s(_BARE)
        for name, command in _COMMANDS.items():
            samples[name].append(_run_s(command) - bare_s)
    records = [
        record(
            samples_s,
            workload="startup",
            elements=0,
            dtype="",
            ranks=1,
            name=name,
            library=f"coconet {version('coconet')}",
            schedule="",
            bytes_per_rank=0,
        )
        for name, samples_s in samples.items()
    ]
    for entry in records:
        print(f"{entry.name:>8}  {entry.median_ms:6.1f} ms over bare Python")
    if json_path is not None:
        write_json(json_path, machine=machine(), versions=versions(), records=records)
    return records


def _run_s(arguments: tuple[str, ...]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin
