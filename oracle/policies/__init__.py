"""When to stop drafting: rules, their names as text, and what the library knows of each.  Loads neither torch nor transformers."""
