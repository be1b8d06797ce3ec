"""What is written: traces and measured runs, whole files in folders that explain themselves.

Loads neither torch nor transformers.
"""
