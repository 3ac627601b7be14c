"""The order in which passes run.

Source:
    torch.fx.passes.infra.pass_manager.
"""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

from shmtensor.nn import Module

from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def _name(one: Pass) -> str:
    return one.__name__ if inspect.isfunction(one) else type(one).__name__


def pass_result_wrapper(fn: Pass | None) -> Callable[..., PassResult | None] | None:
    """Return a pass that returns a `PassResult`, made of a function that need not.

    Args:
        fn: Takes a module. When it returns a module or None, that module or the one it was given
            counts as modified. None stays None.
    """
    if fn is None:
        return None
    function = fn

    @functools.wraps(function)
    def wrapped(module: Module) -> PassResult | None:
        result = function(module)
        if isinstance(result, PassResult):
            return result
        if result is None or isinstance(result, Module):
            return PassResult(module if result is None else result, True)
        return None

    if not inspect.isfunction(function):
        wrapped.__name__ = type(function).__name__
    return wrapped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Return a constraint: *this* runs before *that*.

    Args:
        this: A pass.
        that: Another.
    """
    return lambda a, b: a != that or b != this


def _in_order(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes, each behind those that must run before it.

    Raises:
        RuntimeError: Some would have to run before themselves.
    """
    if not constraints:
        return passes
    later: dict[Pass, list[Pass]] = {one: [] for one in passes}
    n_before = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            n = 0 if a == b else sum(not may_precede(a, b) for may_precede in constraints)
            later[b] += [a] * n
            n_before[a] += n
    free = deque(one for one in n_before if n_before[one] == 0)
    ordered = []
    while free:
        ordered.append(one := free.popleft())
        for each in later[one]:
            n_before[each] -= 1
            if n_before[each] == 0:
                free.append(each)
    if circular := [one for one in n_before if n_before[one]]:
        raise RuntimeError(f"Circular dependency detected within the following passes: {circular}")
    return ordered


class PassManager:
    """Runs passes in an order that fits constraints.

    Args:
        passes: Each takes a module and returns a `PassResult`.
        constraints: Each takes two passes, and returns whether the first may run before the second.
        steps: How often all passes run, unless nothing changes before.
        run_checks_after_each_pass: Call `check` behind each pass as well.
        suppress_check_failures: Accepted; torch takes no notice of it either.
    """

    steps = 1

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes = passes or []
        self.constraints = constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass behind the others."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Check the order of the passes.

        Raises:
            RuntimeError: It does not fit a constraint.
        """
        if self._validated:
            return
        for may_precede in self.constraints:
            for i, a in enumerate(self.passes):
                for j, b in enumerate(self.passes[i + 1 :]):
                    if not may_precede(a, b):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {a} before {b}"
                            f" but found {a} at index {i} and {b} at index {j} in pass list."
                        )
        self._validated = True

    def solve_constraints(self) -> None:
        """Order the passes.

        Raises:
            RuntimeError: No order fits the constraints.
        """
        self.passes = _in_order(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Module], None]) -> None:
        """Let *check* look at the module, instead of `check`.

        Raises:
            TypeError: It does not take exactly one argument.
        """
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[assignment,method-assign]

    def check(self, module: Module) -> None:
        """Raise unless a module is as it should be; by default nothing is checked."""

    def __call__(self, module: Module) -> PassResult:
        """Run the passes; the code of graph modules is written anew behind each.

        Returns:
            The last module, and whether any pass has changed it.

        Raises:
            RuntimeError: No order fits the constraints.
            Exception: A pass has failed; the cause is its error.
        """
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        is_modified = False
        for _ in range(self.steps):
            is_modified_now = False
            for i, one in enumerate(self.passes):
                try:
                    result = self._run(one, module)
                except Exception as error:
                    before = [_name(each) for each in self.passes[:i]]
                    raise Exception(
                        f"An error occurred when running the '{_name(one)}' pass after the "
                        f"following passes: {before}"
                    ) from error
                module = result.graph_module
                is_modified_now |= bool(result.modified)
            is_modified |= is_modified_now
            if not is_modified_now:
                break
        return PassResult(module, is_modified)

    def _run(self, one: Pass, module: Module) -> Any:
        result = one(module)
        if not hasattr(result, "graph_module"):
            raise TypeError(
                f"The result of the pass {_name(one)} should be type PassResult."
                "Please wrap it with pass_result_wrapper()"
            )
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result
