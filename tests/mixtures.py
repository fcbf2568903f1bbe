"""Where the mixtures for strong normal noise in a logit come from: `python tests/mixtures.py` prints the constants of `pramana.kernels.logistic`.

H(t) ≈ Σ p_k Φ(s_k t) with s_k up to 1 over the reach, p_k ≥ 0 and Σ p_k = 1, over a fine list of s_k: the smallest error of H, where tH, H′ and t²H′
count a little, is a linear programme, and few p_k are not zero.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit, ndtr

REACHES = {1.0: (1.0, 0.12, 0.0, 0.02), 1.25: (1.0, 0.1, 0.25, 0.03)}
"""And what the errors of H, tH, H′ and t²H′ count."""
CANDIDATES = 1500
SCALE = 1e4  # a solver's tolerance is then far below the errors


def parts(t: np.ndarray, s: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of one component each, and as they should be: H, tH, H′ and t²H′."""
    h, x = expit(t), np.outer(t, s)
    u, low, bell = h * (1 - h), ndtr(x), np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * s
    return [(low, h), (low * t[:, None], h * t), (bell, u), (bell * t[:, None] ** 2, u * t**2)]


def errors(p: np.ndarray, s: np.ndarray) -> list[float]:
    """The largest of H, tH, H′ and t²H′."""
    return [float(np.abs(own @ p - true).max()) for own, true in parts(np.linspace(0, 60, 60_001), s)]


def fitted(reach: float) -> tuple[np.ndarray, np.ndarray]:
    s = np.geomspace(0.12, 1 / reach, CANDIDATES)
    t = np.concatenate([np.linspace(0, 12, 500), np.linspace(12, 45, 200)])
    counted = [(w * own, w * true) for w, (own, true) in zip(REACHES[reach], parts(t, s), strict=True) if w]
    left = np.concatenate([sign * own for own, _ in counted for sign in (1, -1)]) * SCALE
    right = np.concatenate([sign * true for _, true in counted for sign in (1, -1)]) * SCALE
    found = linprog(
        np.append(np.zeros(s.size), 1.0),
        A_ub=np.column_stack([left, -np.ones(right.size)]),
        b_ub=right,
        A_eq=np.append(np.ones(s.size), 0.0)[None],
        b_eq=[1.0],
    )
    p = found.x[:-1]
    some = np.flatnonzero(p > 1e-9)
    groups = np.split(
        some, np.flatnonzero(np.diff(some) > 1) + 1
    )  # neighbours in the list are one component between them
    shares = np.array([p[group].sum() for group in groups])
    return shares / shares.sum(), np.array([p[group] @ s[group] for group in groups]) / shares


if __name__ == "__main__":
    for reach in REACHES:
        p, s = fitted(reach)
        told = "H {:.2e}, tH {:.2e}, H' {:.2e}, t²H' {:.2e}".format(*errors(p, s))
        print(f"below {reach:g}: {told}\n{p.tolist()}\n{s.tolist()}")
