"""What measured runs say: speedups, prices, and where texts part."""
