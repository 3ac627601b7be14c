"""Indexing in functions that the tracer runs.

Source:
    torch._dynamo._trace_wrapped_higher_order_op.
"""

from __future__ import annotations

from types import TracebackType

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A context in which a tensor without dims may be an index: it may be one everywhere here."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
