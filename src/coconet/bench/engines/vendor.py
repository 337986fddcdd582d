"""The MPI libraries that are timed, each with its mpi4py in a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coconet.errors import ResourceError

__all__ = ["INTEL_MPI", "MPICH", "Vendor"]

FOLDER = Path(".mpi")
INSTALL = "make mpi"


@dataclass(frozen=True, slots=True)
class Vendor:
    """One library: two in one environment would overwrite each other's libmpi.

    Attributes
      name         how the library's own version string begins
      folder       where `make mpi` puts it, below .mpi in the current folder
      environment  NAME=VALUE for its launcher and its ranks
    """

    name: str
    folder: str
    environment: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Return the folder that holds bin, lib and mpi4py."""
        return (FOLDER / self.folder).absolute()

    @property
    def launcher(self) -> tuple[str, ...]:
        """Return the command that starts ranks, without its arguments."""
        library = f"MPI4PY_LIBMPI={self.path / 'lib' / 'libmpi.so.12'}"
        mpiexec = str(self.path / "bin" / "mpiexec")
        return ("env", library, *self.environment, mpiexec)

    def is_installed(self) -> bool:
        """Return whether the folder is there."""
        return (self.path / "lib").is_dir()

    def check(self, version: str) -> None:
        """Refuse to time one library under the name of another.

        Raises  ResourceError  the version string is not this library's
        """
        if not version.startswith(self.name):
            raise ResourceError(
                f"the MPI library in {FOLDER / self.folder} is another one",
                got=version,
                need=f"{self.name} ..",
                fix=f"rm -r {FOLDER / self.folder}; {INSTALL}",
            )


MPICH = Vendor("MPICH", "mpich")
# The ranks pin themselves, and nothing but shared memory is between them.
INTEL_MPI = Vendor(
    "Intel(R) MPI Library", "intel", ("I_MPI_FABRICS=shm", "I_MPI_PIN=0")
)
