"""The time of a job minus the time of the same job over almost no input."""


def net_s(seconds: float, empty_s: float) -> float | None:
    """The difference; None if the job took less than twice as long as an empty one, because then it is mostly noise.

    >>> net_s(5.0, 1.0), net_s(1.5, 1.0)
    (4.0, None)
    """
    return seconds - empty_s if seconds >= 2 * empty_s else None
