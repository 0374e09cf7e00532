"""Parts used by several commands."""
