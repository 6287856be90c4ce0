"""Experiments on what choosing saves: many streams, equal spend, paired seeds."""
