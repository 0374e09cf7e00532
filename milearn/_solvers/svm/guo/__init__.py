"""The semidefinite relaxation of instance selection (Guo 2009)."""
