"""From plain decoding up to the best there could be: what each rung gains, and how much of the headroom it takes."""
