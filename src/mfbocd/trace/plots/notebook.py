"""A figure that a notebook shows, whether or not pyplot was imported."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

_DPI = 96  # resolution on a screen, where a file for print has more


class ShownFigure(Figure):
    """A figure that is the output of a notebook cell as a picture; a plain `Figure` would be one line of text."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=_DPI)
        return picture.getvalue()
