"""What was done to the data. Knows nothing of estimation."""

from pramana.mechanism import designs, imports
from pramana.mechanism.channel import Channel, Nodes
from pramana.mechanism.channels.joint_noise import JointGaussianNoise
from pramana.mechanism.channels.noise import (
    DiscreteGaussianNoise,
    GaussianNoise,
    GeometricNoise,
    KeepOrNoise,
    LaplaceNoise,
    UniformNoise,
)
from pramana.mechanism.channels.stratified import Stratified
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.mechanism import Assignment, Mechanism, Unit

__all__ = [
    "Assignment",
    "Channel",
    "DiscreteGaussianNoise",
    "GaussianNoise",
    "GeometricNoise",
    "JointGaussianNoise",
    "KeepOrNoise",
    "LaplaceNoise",
    "Mechanism",
    "Nodes",
    "Stratified",
    "TransitionMatrix",
    "UniformNoise",
    "Unit",
    "designs",
    "imports",
]
