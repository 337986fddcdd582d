"""What the control groups (v2) around this process leave to it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["num_cpus", "room_bytes"]

ROOT = Path("/sys/fs/cgroup")


def room_bytes() -> list[int]:
    """Return the bytes left under each memory limit; what is only cached counts."""
    rooms: list[int] = []
    for level in _levels():
        try:
            limit = (level / "memory.max").read_text().strip()
            used = int((level / "memory.current").read_text())
            lines = (level / "memory.stat").read_text().splitlines()
        except OSError:
            continue
        if limit != "max":
            stat = dict(line.split() for line in lines)
            cached = int(stat["active_file"]) + int(stat["inactive_file"])
            rooms.append(max(0, int(limit) - used + cached))
    return rooms


def num_cpus() -> list[float]:
    """Return how many cores' time each limit allows."""
    counts: list[float] = []
    for level in _levels():
        try:
            quota, period = (level / "cpu.max").read_text().split()
        except OSError:
            continue
        if quota != "max":
            counts.append(int(quota) / int(period))
    return counts


def _levels() -> list[Path]:
    """Return the folder of this process's group, and those of the groups around it."""
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    inner = [ROOT / line.removeprefix("0::/") for line in groups if line[:4] == "0::/"]
    return [level for folder in inner for level in (folder, *folder.parents)]
