"""The convex steps of the support vector machines, and what alternates with them."""
