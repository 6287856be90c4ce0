"""Real streams with known or human-labelled changes; nothing is downloaded.

`camvid_fence` and `toycar` read tables shipped with the package. `run_log` and `digits` read data from other packages
and need the extra ``mfbocd[real]``.
"""

from ._camvid_fence import camvid_fence
from ._digits import digits
from ._run_log import run_log
from ._stream import RealStream
from ._toycar import toycar

__all__ = ["RealStream", "camvid_fence", "digits", "run_log", "toycar"]
