"""The names of the topics of dead letters."""

from __future__ import annotations


def dead_letter_topic(source: str) -> str:
    """The topic of a source's dead letters.

    >>> dead_letter_topic("readings")
    'dsms.readings.dead-letters'
    """
    return f"dsms.{source}.dead-letters"
