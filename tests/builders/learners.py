"""Policies that learn as they go, set so that they do so within a few iterations."""

LEARNING = (
    "margin:tokens=4,warmup=3,rate=0.5",
    "ema:sizes=1/2/4,warmup=0,every=1,rate=0.5",
    "ucb:arms=1/survival/kangaroo:threshold=0.3+tokens=4",
    "exp3:arms=1/3/svip,seed=7",
    "tapout:arms=1/survival/max-confidence",
    "heuristic-4.46:tokens=4,threshold=0.4",
)
