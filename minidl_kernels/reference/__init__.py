"""Every kernel in a few lines of NumPy: the specification, the oracle, and the float64 backend."""
