"""Where each number lives in the two flat arrays every kernel receives.

``state`` belongs to one stream and changes at every tick: a header, then one column of ``state[CAP]`` numbers
each for the weight, the start tick and every statistic of the hypotheses. Hypotheses stay in order of their start,
oldest first, so a new one is appended and nothing moves. Rows past the last have weight 0 and finite, meaningless
statistics. One flat array has half the call overhead of separate ones, and a fleet is a matrix whose rows are states.

``setup`` never changes and is shared by the streams of a fleet: alarm, pruning, the model's parameters, hazard.
"""

from __future__ import annotations

# --- state -------------------------------------------------------------------------------------------------
COUNT = 0  # number of hypotheses
TICK = 1  # index of the last tick, -1 before the first
TOTAL = 2  # sum of the weight column: weights are kept unnormalised until the next tick
EVIDENCE = 3  # log p(x_1..x_t)
CAP = 4  # capacity of a column
LIMIT = 5  # prune once COUNT exceeds this
SEED = 6
MAP_INDEX = 7  # index of the heaviest hypothesis
FIRED = 8  # tick of the last alarm, -1 if none
MEAN = 9  # E[x_{t+1}]; MEAN .. CONFIDENCE is the report of a tick
RUN = 10  # MAP run length
CHANGE = 11  # P(change within the alarm's window)
ALARM = 12  # 1 at the tick an alarm fires
CHANGED_AT = 13  # tick of the last reported change, -1 if none
CONFIDENCE = 14  # probability of the change that the last alarm reported
COLUMNS = 15
HEAD = 16
REPORT = slice(MEAN, CONFIDENCE + 1)
FIELDS = CONFIDENCE + 1 - MEAN

WEIGHT, BIRTH, STATS = 0, 1, 2  # columns; the model's statistics start at STATS
# If the hazard is learned, the last columns hold P(candidate | hypothesis), one column per candidate.

# --- setup -------------------------------------------------------------------------------------------------
WITHIN = 0  # alarm window in ticks
THRESHOLD = 1  # alarm level; above 1 it never fires
EPS = 2  # drop hypotheses below this probability; 0 keeps all
MOST = 3  # largest number of hypotheses; 0 means unbounded
SLACK = 4  # ticks between prunings
RESAMPLE = 5  # 1: stratified optimal resampling, 0: keep the heaviest
PARAMS = 6  # number of model parameters at FIRST; the hazard table follows them
HAZARDS = 7  # its length
LEARNED = 8  # number of candidates if the hazard is learned (the table holds them and their prior), else 0
FIRST = 9

LANES = 32  # stride of a vectorised, unrolled loop; columns are padded to it, since leftover rows are 5x slower
TINY = 1e-200  # smaller weights are set to 0: subnormals are slow and negligible

# --- gains ---------------------------------------------------------------------------------------------------
RUN_LENGTH, JOINT, VARIANCE = 0, 1, 2  # kinds of gain
