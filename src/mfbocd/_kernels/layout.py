"""Where each number lives in the two flat arrays every kernel receives.

``state`` belongs to one stream and changes at every tick: a header, then one column of ``state[CAP]`` numbers
each for the weight, the birth tick and every statistic of the hypotheses. Hypotheses stay in birth order,
oldest first, so a new one is appended and nothing ever shifts; rows past the last have weight 0 and hold
statistics that are finite and mean nothing. One flat array costs half the call overhead
of separate ones, and a fleet is simply a matrix whose rows are states.

``setup`` never changes and is shared by the streams of a fleet: alarm, pruning, the model's parameters, hazard.
"""

from __future__ import annotations

# --- state -------------------------------------------------------------------------------------------------
COUNT = 0  # hypotheses alive
TICK = 1  # index of the last tick, -1 before the first
TOTAL = 2  # sum of the weight column: weights are kept unnormalised until the next tick
EVIDENCE = 3  # log p(x_1..x_t)
CAP = 4  # rows a column has room for
LIMIT = 5  # prune once COUNT exceeds this
SEED = 6
MAP_INDEX = 7  # index of the heaviest hypothesis
FIRED = 8  # tick of the last alarm, -1 if none
MEAN = 9  # E[x_{t+1}]; MEAN .. CHANGED_AT is what a tick reports
RUN = 10  # MAP run length
CHANGE = 11  # P(change within the alarm's window)
ALARM = 12  # 1 at the tick an alarm fires
CHANGED_AT = 13  # tick of the last reported change, -1 if none
CONFIDENCE = 14  # P of the change the last alarm reported
COLUMNS = 15
HEAD = 16
REPORT = slice(MEAN, CONFIDENCE + 1)
FIELDS = CONFIDENCE + 1 - MEAN

WEIGHT, BIRTH, STATS = 0, 1, 2  # columns; the model's statistics start at STATS
# Where the hazard is learnt, the last columns hold P(candidate | hypothesis), one column a candidate.

# --- setup -------------------------------------------------------------------------------------------------
WITHIN = 0  # alarm window in ticks
THRESHOLD = 1  # alarm level; above 1 it never fires
EPS = 2  # drop hypotheses below this share; 0 keeps all
MOST = 3  # never more hypotheses than this; 0 is unbounded
SLACK = 4  # ticks between prunings
RESAMPLE = 5  # 1: stratified optimal resampling, 0: the heaviest
PARAMS = 6  # how many model parameters follow at FIRST; then comes the hazard table
HAZARDS = 7  # its length
LEARNED = 8  # how many candidate hazards are weighed, 0 if it is known: then the table is these, and their prior
FIRST = 9

LANES = 32  # a vectorised, unrolled loop's stride; columns are padded to it, since odd rows go five times slower
TINY = 1e-200  # weights below this are flushed: subnormals are slow and mean nothing

# --- gains ---------------------------------------------------------------------------------------------------
RUN_LENGTH, JOINT, VARIANCE = 0, 1, 2  # what a reading is expected to tell about
