"""Results for people: the changes of a series in one call, and a report as one HTML file (extra ``report``).

Examples
--------
>>> import mfbocd as mf
>>> trace = mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1], detail=True)
>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = mf.report.write(Path(folder) / "report.html", trace, title="Pump 7", unit="bar")
...     "1 change was found" in path.read_text()
True
"""

from ..trace.levels import Level
from .detection import Detection, FoundChange, detect
from .page import page, write

__all__ = ["Detection", "FoundChange", "Level", "detect", "page", "write"]
