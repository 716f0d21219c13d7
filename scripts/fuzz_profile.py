"""A pytest plugin: Hypothesis draws many more examples, different ones in each run, without a time limit for each."""

from hypothesis import HealthCheck, settings

EXAMPLES = 300


def pytest_configure() -> None:
    """Makes the profile of `make fuzz` the default one."""
    settings.register_profile(
        "fuzz",
        derandomize=False,  # a new profile inherits from the one in use, and that of `make test` sets this to True
        print_blob=True,
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("fuzz")
