"""What was done to the data. Knows nothing of estimation."""

from pramana.mechanism import designs
from pramana.mechanism.channel import Channel, Nodes
from pramana.mechanism.mechanism import Assignment, Mechanism
from pramana.mechanism.stratified import Stratified
from pramana.mechanism.transition import TransitionMatrix

__all__ = ["Assignment", "Channel", "Mechanism", "Nodes", "Stratified", "TransitionMatrix", "designs"]
