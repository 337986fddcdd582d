"""The proof that a plan never races, reads what nobody wrote, or leaves its memory."""

from coconet.plan.verify.proof import verify_plan

__all__ = ["verify_plan"]
