"""Is every schedule equal to its program, in simulation and on real processes?"""

from coconet.verification.processes import verify_on_processes
from coconet.verification.report import Case, Report
from coconet.verification.simulate import verify_simulated

__all__ = ["Case", "Report", "verify_on_processes", "verify_simulated"]
