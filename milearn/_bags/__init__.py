"""The container of bags, the coercion of input to it, and reductions per bag."""

from .container import Bags as Bags
