"""A first configuration estimated from data, with the reason for every value."""

from .columns import TIMES, TableColumns, classify_columns
from .guess import GuessError, guess_config, template
from .model import Guess, guess_family, guess_model, guess_with_reasons

__all__ = [
    "TIMES",
    "Guess",
    "GuessError",
    "TableColumns",
    "classify_columns",
    "guess_config",
    "guess_family",
    "guess_model",
    "guess_with_reasons",
    "template",
]
