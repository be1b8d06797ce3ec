"""Records what a draft model would propose at every position of a target model's text, for exact replay."""
