"""A first config from data: what can be guessed, each guess with the number it rests on."""

from .guess import GuessError, guess_config, template
from .model import Guess, guess_model
from .survey import TIMES, Survey, survey

__all__ = ["TIMES", "Guess", "GuessError", "Survey", "guess_config", "guess_model", "survey", "template"]
