"""What drafts for a target: a model of its own, the target's first layers, an n-gram lookup."""
