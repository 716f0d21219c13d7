"""The time of a job without what even an empty job takes."""


def net_s(seconds: float, empty_s: float) -> float | None:
    """The difference, or None where it would be mostly noise: the job took less than twice as long as an empty one.

    >>> net_s(5.0, 1.0), net_s(1.5, 1.0)
    (4.0, None)
    """
    return seconds - empty_s if seconds >= 2 * empty_s else None
