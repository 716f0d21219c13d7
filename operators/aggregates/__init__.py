"""The aggregates: a registry by SQL name."""

from operators.aggregates.first_row import FIRST_ROW
from operators.aggregates.function import AggregateFunction
from operators.aggregates.holistic import HOLISTIC
from operators.aggregates.linear import LINEAR
from operators.aggregates.moments import MOMENTS

#: Alias -> name of the function, for names that other SQL systems use.
ALIASES: dict[str, str] = {
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "every": "bool_and",
    "logical_and": "bool_and",
    "logical_or": "bool_or",
    "some": "bool_or",
    "countif": "count_if",
    "min_by": "arg_min",
    "max_by": "arg_max",
    "argmin": "arg_min",
    "argmax": "arg_max",
    "arbitrary": "any_value",
    "first_value": "first",
    "last_value": "last",
    "quantile": "percentile_cont",
    "quantile_cont": "percentile_cont",
    "quantile_disc": "percentile_disc",
    "approx_distinct": "approx_count_distinct",
    "approx_quantile": "approx_percentile",
    "listagg": "string_agg",
    "group_concat": "string_agg",
    "collect": "array_agg",
    "collect_list": "array_agg",
    "list": "array_agg",
}

AGGREGATES: dict[str, AggregateFunction] = {
    **LINEAR,
    **MOMENTS,
    **FIRST_ROW,
    **HOLISTIC,
}
AGGREGATES |= {alias: AGGREGATES[name] for alias, name in ALIASES.items()}

__all__ = ["AGGREGATES", "ALIASES", "AggregateFunction"]
