"""Ways to make a transition matrix (from frequencies, allowed moves, epsilon, a survey), and design files that ask for one."""

from pramana.mechanism.designs.combinations import by_stratum, linked, observed_combinations
from pramana.mechanism.designs.invariance import invariant, per_level
from pramana.mechanism.designs.privacy import (
    Choice,
    best_for_epsilon,
    block_design,
    difference_set_sizes,
    epsilon_within,
    total_variance,
)
from pramana.mechanism.designs.structures import band, blocks, restricted
from pramana.mechanism.designs.surveys import (
    cheating_detection,
    crosswise,
    forced_response,
    kuk,
    mangat,
    mangat_singh,
    stochastic_lie_detector,
    unrelated_question,
    unrelated_question_unknown,
    warner,
)

__all__ = [
    "Choice",
    "band",
    "best_for_epsilon",
    "block_design",
    "blocks",
    "by_stratum",
    "cheating_detection",
    "crosswise",
    "difference_set_sizes",
    "epsilon_within",
    "forced_response",
    "invariant",
    "kuk",
    "linked",
    "mangat",
    "mangat_singh",
    "observed_combinations",
    "per_level",
    "restricted",
    "stochastic_lie_detector",
    "total_variance",
    "unrelated_question",
    "unrelated_question_unknown",
    "warner",
]
