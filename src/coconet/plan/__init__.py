"""How every rank runs a program: loops, peer loads and stores, barriers.  Immutable."""

from coconet.plan.buffer import Buffer, Role, Space
from coconet.plan.builder import PlanBuilder, TileBuilder
from coconet.plan.inbox import inboxed
from coconet.plan.instr import (
    EVERY,
    OWN,
    Apply,
    Arrive,
    Barrier,
    Constant,
    FenceStores,
    Fold,
    Index,
    Instruction,
    Load,
    Peer,
    Position,
    Reduce,
    Register,
    Step,
    Store,
    Tile,
    View,
)
from coconet.plan.plan import Plan
from coconet.plan.rounds import Rounds, Stage, peers_store, stage
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
    "Fold",
    "Index",
    "Instruction",
    "Load",
    "Peer",
    "Plan",
    "PlanBuilder",
    "Position",
    "Primitive",
    "Reduce",
    "Register",
    "Role",
    "Rounds",
    "ScalarExpr",
    "Space",
    "Stage",
    "Step",
    "Store",
    "Tile",
    "TileBuilder",
    "View",
    "evaluate_scalars",
    "inboxed",
    "peers_store",
    "stage",
]
