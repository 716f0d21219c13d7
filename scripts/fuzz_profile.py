"""A pytest plugin: Hypothesis draws many more examples, other ones in each run, and any time for one is fine."""

from hypothesis import HealthCheck, settings

EXAMPLES = 300


def pytest_configure() -> None:
    """Makes the profile of `make fuzz` the default one."""
    settings.register_profile(
        "fuzz",
        derandomize=False,  # which the profile of `make test` has, and a new profile inherits from the one in use
        print_blob=True,
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("fuzz")
