"""Comparisons, logic and tests of single values: NumPy's own, whose results are bool."""

import numpy as np

eq = np.equal
ne = np.not_equal
lt = np.less
le = np.less_equal
gt = np.greater
ge = np.greater_equal
logical_and = np.logical_and
logical_or = np.logical_or
logical_xor = np.logical_xor
logical_not = np.logical_not
bitwise_and = np.bitwise_and
bitwise_or = np.bitwise_or
bitwise_xor = np.bitwise_xor
bitwise_not = np.bitwise_not
isnan = np.isnan
isinf = np.isinf
isfinite = np.isfinite
