"""Printing plans."""

from __future__ import annotations

from coconet.ir import Shape
from coconet.plan.buffer import Buffer
from coconet.plan.instr import (
    Apply,
    Arrive,
    Barrier,
    Constant,
    FenceStores,
    Fold,
    Index,
    Load,
    Peer,
    Position,
    Reduce,
    Register,
    Store,
    Tile,
    View,
)
from coconet.plan.plan import Plan
from coconet.plan.scalar import ScalarExpr

__all__ = ["plan_text"]

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<="}


def plan_text(plan: Plan) -> str:
    """Return a plan as text, one instruction per line."""
    lines = [f"plan {plan.name}  group {plan.group} size {plan.ranks}"]
    lines += [_buffer_text(buffer) for buffer in plan.buffers]
    names = {number: f"k{number}" for number in range(len(plan.consts))}
    for number, expr in enumerate(plan.consts):
        lines.append(f"  once    k{number} = {_scalar_text(plan, expr, names)}")
    for instruction in plan.body:
        match instruction:
            case Arrive():
                lines.append(f"  arrive {plan.group}  # fingerprints compared")
            case FenceStores():
                lines.append("  fence_stores")
            case Barrier(where):
                lines.append(f"  barrier {plan.group}  # {plan.waits[where]}")
            case Tile():
                lines += _tile_text(instruction)
            case Fold(result, partials, primitive, _):
                source = f"{partials}[every rank]"
                lines.append(f"  fold    {result} = {primitive} of {source}")
    return "\n".join(lines)


def _shape_text(shape: Shape) -> str:
    return ", ".join(str(extent) for extent in shape)


def _buffer_text(buffer: Buffer) -> str:
    where = "" if buffer.cut is None else f" piece by {buffer.cut!r}"
    kind = f"{buffer.dtype}[{_shape_text(buffer.shape)}]"
    line = f"  {buffer.role.value:<7} {buffer.name:<8} {kind:<10} {buffer.space.value}"
    return line + where


def _scalar_text(plan: Plan, expr: ScalarExpr, names: dict[int, str]) -> str:
    if expr.kind == "argument":
        return plan.scalars[int(expr.value)]
    if expr.kind == "literal":
        return repr(expr.value)
    if expr.kind == "numel":
        return f"numel[{_shape_text(expr.shape)}]"
    return _call(expr.kind, [names[number] for number in expr.args])


def _call(primitive: str, args: list[str]) -> str:
    if primitive in _INFIX:
        return f"{args[0]} {_INFIX[primitive]} {args[1]}"
    return f"{primitive}({', '.join(args)})"


def _peer_text(peer: Peer) -> str:
    return str(peer) if isinstance(peer, int) else peer.value


def _operand_text(operand: Register | Constant) -> str:
    if isinstance(operand, Constant):
        return f"{operand.dtype}(k{operand.number})"
    return f"r{operand.number}"


def _index_text(index: Index | View) -> str:
    if isinstance(index, Index):
        return index.value
    walk = ["-" if axis is None else str(axis) for axis in index.axes]
    start = f" from {list(index.start)}" if any(index.start) else ""
    return f"dims ({', '.join(walk)}){start}"


def _tile_text(tile: Tile) -> list[str]:
    over = "all" if tile.cut is None else f"piece by {tile.cut!r}"
    lines = [f"  tile [{_shape_text(tile.shape)}] {over}:  # {tile.name}"]
    if tile.staged:
        lines.append(f"    in rounds where private: {', '.join(tile.staged)}")
    for step in tile.body:
        match step:
            case Load(result, buffer, peer, index):
                source = f"load {buffer}[{_peer_text(peer)}, {_index_text(index)}]"
                lines.append(f"    {_operand_text(result)} = {source}")
            case Position(result, index):
                number = f"number of {_index_text(index)}"
                lines.append(f"    {_operand_text(result)} = {number}")
            case Apply(result, primitive, args):
                text = _call(primitive, [_operand_text(arg) for arg in args])
                kind = f"{result.dtype} " if primitive == "cast" else ""
                lines.append(f"    {_operand_text(result)} = {kind}{text}")
            case Store(buffer, peer, index, source):
                target = f"{buffer}[{_peer_text(peer)}, {_index_text(index)}]"
                lines.append(f"    store {target}, {_operand_text(source)}")
            case Reduce(buffer, primitive, source, dims, is_partial, inner):
                row = "the piece, in subtrees" if is_partial else f"{dims} dims"
                row += f" before {inner}" if inner else ""
                text = f"{primitive} of {_operand_text(source)} over {row}"
                lines.append(f"    reduce {buffer}, {text}")
    return lines
