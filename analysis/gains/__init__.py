"""A gain over the best constant lookahead: its null under shuffled tokens, its split, and what is left held out."""
