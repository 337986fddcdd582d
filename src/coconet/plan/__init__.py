"""How every rank runs a program: loops, peer loads and stores, barriers.  Immutable."""

from coconet.plan.buffer import Buffer, Role, Space
from coconet.plan.builder import PlanBuilder, TileBuilder
from coconet.plan.instr import (
    EVERY,
    OWN,
    Apply,
    Arrive,
    Barrier,
    Constant,
    FenceStores,
    Index,
    Instruction,
    Load,
    Peer,
    Register,
    RowMap,
    Store,
    Tile,
)
from coconet.plan.plan import Plan
from coconet.plan.scalar import (
    PRIMITIVES,
    Primitive,
    ScalarExpr,
    evaluate_scalars,
)

__all__ = [
    "EVERY",
    "OWN",
    "PRIMITIVES",
    "Apply",
    "Arrive",
    "Barrier",
    "Buffer",
    "Constant",
    "FenceStores",
    "Index",
    "Instruction",
    "Load",
    "Peer",
    "Plan",
    "PlanBuilder",
    "Primitive",
    "Register",
    "Role",
    "RowMap",
    "ScalarExpr",
    "Space",
    "Store",
    "Tile",
    "TileBuilder",
    "evaluate_scalars",
]
