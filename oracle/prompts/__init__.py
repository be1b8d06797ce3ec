"""Data sets and local files to prompts, and prompts to token ids."""
