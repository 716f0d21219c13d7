"""Returns the id of the current trace without importing OpenTelemetry, which processes that do not trace never load."""

import sys


def current_trace() -> str | None:
    """The id of the current trace, 32 hexadecimal digits; None outside a trace.

    >>> current_trace()
    """
    if (trace := sys.modules.get("opentelemetry.trace")) is None:
        return None
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None
