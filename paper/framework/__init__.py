"""What every target uses: options, results, numbers with errors, work in parts, pages."""

from .numbers import Number, Row
from .page import command, comparison, grid, markdown, publish, to_csv, write
from .parts import ClusterError, Job, cluster, finish, sources
from .target import Options, Picture, Result, Target, target

__all__ = [
    "ClusterError",
    "Job",
    "Number",
    "Options",
    "Picture",
    "Result",
    "Row",
    "Target",
    "cluster",
    "command",
    "comparison",
    "finish",
    "grid",
    "markdown",
    "publish",
    "sources",
    "target",
    "to_csv",
    "write",
]
