"""What many tests build: small traces, tiny pairs, measured runs whose every second is known."""
