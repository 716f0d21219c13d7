"""A pytest plugin: Hypothesis draws many more examples, and any time for one is fine."""

from hypothesis import HealthCheck, settings

EXAMPLES = 300


def pytest_configure() -> None:
    """Makes the profile of `make fuzz` the default one."""
    settings.register_profile("fuzz", max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    settings.load_profile("fuzz")
