"""Support vector machines for bags: convex steps, and the procedures that repeat them."""
