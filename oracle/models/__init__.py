"""Pairs of models: loading, whether two fit together, and passes over them."""
