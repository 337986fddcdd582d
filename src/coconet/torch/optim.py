"""torch.optim's optimizers for data-parallel training, one fused call per step.

A step averages the gradients of all ranks and updates the parameters in one kernel, on
shared memory; optimizer state is kept in pieces, 1/p of it on each of p ranks.
"""

from __future__ import annotations

from typing import Any, Unpack

from coconet.ir import Program
from coconet.torch.base import Optimizer, Options
from coconet.torch.workloads import Variant, adam, sgd

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]


class Adam(Optimizer):
    """torch.optim.Adam on the mean gradient of all ranks.

    Arguments up to `fused` as torch has them; `options` are those of Optimizer.
    foreach and fused change nothing: every step is one kernel.
    """

    _counts_steps = True

    def __init__(
        self,
        params: Any,
        lr: float | Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Take over the parameters; see Optimizer."""
        _check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        for number, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"betas[{number}] must be in [0, 1), got {beta}")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
            },
            **options,
        )

    def _program(self, group: dict[str, Any], variant: Variant) -> Program:
        return adam(
            variant,
            has_decay=group["weight_decay"] != 0,
            is_decoupled=group["decoupled_weight_decay"],
            amsgrad=group["amsgrad"],
        )

    def _scalars(self, group: dict[str, Any], age: int) -> dict[str, float]:
        beta1, beta2 = group["betas"]
        scalars = {
            "lr": float(group["lr"]),
            "beta1": float(beta1),
            "beta2": float(beta2),
            "eps": group["eps"],
            "t": age + 1,
        }
        if group["weight_decay"] != 0:
            scalars["weight_decay"] = group["weight_decay"]
        return scalars


class AdamW(Adam):
    """torch.optim.AdamW on the mean gradient of all ranks: decoupled weight decay."""

    def __init__(
        self,
        params: Any,
        lr: float | Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        """Take over the parameters; the options are those of Adam."""
        options["decoupled_weight_decay"] = True
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **options)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Stay decoupled whatever was loaded, as torch's does."""
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class SGD(Optimizer):
    """torch.optim.SGD on the mean gradient of all ranks.

    Arguments up to `fused` as torch has them; `options` are those of Optimizer.
    foreach and fused change nothing: every step is one kernel.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Take over the parameters; see Optimizer."""
        _check_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "nesterov needs momentum > 0 and dampening = 0, "
                f"got {momentum} and {dampening}"
            )
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
            **options,
        )

    def _program(self, group: dict[str, Any], variant: Variant) -> Program:
        return sgd(
            variant,
            has_decay=group["weight_decay"] != 0,
            has_momentum=group["momentum"] != 0,
            nesterov=group["nesterov"],
        )

    def _scalars(self, group: dict[str, Any], age: int) -> dict[str, float]:
        scalars = {"lr": float(group["lr"])}
        if group["weight_decay"] != 0:
            scalars["weight_decay"] = group["weight_decay"]
        if group["momentum"] != 0:
            scalars["keep"] = group["momentum"] if age else 0.0
            scalars["take"] = 1 - group["dampening"] if age else 1.0
            if group["nesterov"]:
                scalars["momentum"] = group["momentum"]
        return scalars


def _check_not_negative(**options: Any) -> None:
    for name, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"{name} must not be negative, got {value}")
