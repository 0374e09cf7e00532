"""Arrays in, a result object out: solvers know no estimators, labels or containers."""
