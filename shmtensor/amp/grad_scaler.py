"""Losses that are scaled up before backward, so that small gradients do not become 0 in float16.

Source:
    torch.amp.grad_scaler; the method is that of Micikevicius et al., "Mixed precision training",
    2018, with a scale that is found as it goes.
"""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.autograd import no_grad

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """What was done with an optimiser since the last `GradScaler.update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, and steps optimisers with gradients that are scaled back.

    A step whose gradients hold an infinity or NaN is left out, and the scale becomes smaller; after
    *growth_interval* steps without, it becomes larger.

    Args:
        device: Where the losses are: ``"cpu"``. ``"cuda"`` is not here, and switches it off.
        init_scale: The scale at first.
        growth_factor: What the scale is multiplied by when it grows; more than 1.
        backoff_factor: What it is multiplied by after an infinity; less than 1.
        growth_interval: Steps without an infinity after which it grows.
        enabled: False makes `scale` return what it is given and `step` step.

    Raises:
        AssertionError: A factor is out of its range.

    Examples:
        >>> scaler = shmtensor.amp.GradScaler("cpu")
        >>> with shmtensor.autocast("cpu", dtype=shmtensor.float16):
        ...     loss = loss_function(model(inputs), targets)
        >>> scaler.scale(loss).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()

    Source:
        torch.amp.GradScaler.
    """

    _scale: Tensor | None
    _growth_tracker: Tensor | None

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale = None  # made by the first call of scale()
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker = None  # steps without an infinity, an int32
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(
            _refresh_per_optimizer_state
        )

    # --- scaling ---------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Multiply by the scale.

        Args:
            outputs: A tensor, or lists and tuples of tensors, or another iterable of these.

        Returns:
            The same with new tensors, of another iterable an iterator that makes them as it goes.
            What is given, when the scaler is off.

        Raises:
            ValueError: It is something else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale_now().to(outputs.device)
        if not isinstance(outputs, Iterable):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled  # type: ignore[call-arg]

    def _scale_now(self) -> Tensor:
        """The scale as a tensor without dims, float32."""
        if self._scale is None:
            self._scale = _C.full((), self._init_scale, dtype=_C.float32)
            self._growth_tracker = _C.full((), self._init_growth_tracker, dtype=_C.int32)
        return self._scale

    def _scale_for(self, what: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    # --- scaling back ----------------------------------------------------------------------------

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[_C.device, Tensor]:
        """Multiply all gradients by *inv_scale*.

        Returns:
            For each device a float32 tensor: 1 where a gradient held an infinity or NaN.
        """
        found: dict[_C.device, Tensor] = {}
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    gradient = parameter.grad
                    if gradient is None:
                        continue
                    if gradient.dtype is _C.float16 and not allow_fp16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if gradient.is_sparse:
                        gradient = parameter.grad = gradient.coalesce()
                        gradient = gradient._values()
                    if gradient.device not in found:
                        found[gradient.device] = found_inf.clone()
                    if not bool(_C.isfinite(gradient).all()):
                        found[gradient.device].fill_(1.0)
                    gradient.mul_(inv_scale.to(gradient.dtype))
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, in place.

        `step` does so by itself; this is for who looks at gradients in between, to clip them.

        Raises:
            RuntimeError: It was done since the last `update`, or the optimiser has stepped.
            ValueError: A gradient is of float16.
        """
        if not self._enabled:
            return
        scale = self._scale_for("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(
            optimizer, inverse, _C.zeros((), dtype=_C.float32), False
        )
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> float | None:
        """Step an optimiser, unless a gradient holds an infinity or NaN.

        Args:
            optimizer: Its gradients are divided by the scale first, unless `unscale_` has.
            *args: For ``optimizer.step``.
            **kwargs: Likewise.

        Returns:
            What ``optimizer.step`` returns; None where it was left out.

        Raises:
            RuntimeError: It was called since the last `update`, or with a closure.
            AssertionError: No gradient was found.
        """
        if not self._enabled:
            result: float | None = optimizer.step(*args, **kwargs)
            return result
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._scale_for("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(found.item() for found in state["found_inf_per_device"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    # --- the scale -------------------------------------------------------------------------------

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End an iteration: find the scale of the next one.

        Args:
            new_scale: It, a float or a float32 tensor of one element. Without it, the scale shrinks
                where a step had an infinity, and grows after enough steps without.

        Raises:
            AssertionError: *new_scale* is something else, or nothing was scaled and stepped.
        """
        if not self._enabled:
            return
        scale = self._scale_for("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                fits = new_scale.numel() == 1 and new_scale.dtype is _C.float32
                if not fits or new_scale.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                        "torch.FloatTensor with requires_grad=False."
                    )
                scale.copy_(new_scale.reshape(()))
            else:
                scale.fill_(new_scale)
        else:
            self._find_scale(scale)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _find_scale(self, scale: Tensor) -> None:
        found = [
            each
            for state in self._per_optimizer_states.values()
            for each in state["found_inf_per_device"].values()
        ]
        if not found:
            raise AssertionError("No inf checks were recorded prior to update.")
        tracker = self._growth_tracker
        assert tracker is not None
        if any(each.item() for each in found):
            scale.mul_(self._backoff_factor)
            tracker.zero_()
            return
        tracker.add_(1)
        if int(tracker.item()) == self._growth_interval:
            larger = scale * self._growth_factor
            if bool(_C.isfinite(larger)):  # stays below what float32 holds
                scale.copy_(larger)
            tracker.zero_()

    def _found_inf_per_device(self, optimizer: Any) -> dict[_C.device, Tensor]:
        found: dict[_C.device, Tensor] = self._per_optimizer_states[id(optimizer)][
            "found_inf_per_device"
        ]
        return found

    def _check_inf_per_device(self, optimizer: Any) -> dict[_C.device, Tensor]:
        """Look for infinities and NaN in gradients without scaling them."""
        self._scale_for("_check_inf_per_device")
        state = self._per_optimizer_states[id(optimizer)]
        one, zero = _C.ones((), dtype=_C.float32), _C.zeros((), dtype=_C.float32)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, zero, True)
        return self._found_inf_per_device(optimizer)

    def get_scale(self) -> float:
        """Return the scale; 1.0 when the scaler is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return what the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return what the scale is multiplied by after an infinity."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after an infinity."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many steps without an infinity the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps without an infinity the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether the scaler does anything."""
        return self._enabled

    # --- its state -------------------------------------------------------------------------------

    def _get_growth_tracker(self) -> int:
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers: scale, factors, interval and steps. Empty when it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state that `state_dict` returned.

        Raises:
            RuntimeError: It is empty: of a scaler that was off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
