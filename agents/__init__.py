"""Agents: who acts, the rollout loop, evaluation. Nothing here imports torch before a model is asked for.

`models` holds the agents that ask a language model, and what samples their tokens; `driver` plays one episode, a step
at a time, for `Rollout`, branching and the adapters' sessions.
"""

from rlvr.agents.conversation import Agent, Conversation, Message, Reply, TokenSequence
from rlvr.agents.episode import Episode, RolloutRequest, Turn
from rlvr.agents.evaluation import Evaluation, evaluate, summarise, task_requests
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ConstantAgent, ExpertAgent, HumanAgent, RandomAgent

__all__ = [
    "Agent",
    "ConstantAgent",
    "Conversation",
    "Episode",
    "Evaluation",
    "ExpertAgent",
    "HumanAgent",
    "Message",
    "RandomAgent",
    "Reply",
    "Rollout",
    "RolloutRequest",
    "TokenSequence",
    "Turn",
    "evaluate",
    "summarise",
    "task_requests",
]
