"""Both languages against the same committed bytes."""
