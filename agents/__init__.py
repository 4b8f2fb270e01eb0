"""Agents: who acts, the rollout loop, evaluation. Nothing here imports torch before a model is asked for."""

from rlvr.agents.conversation import Agent, Conversation, Message, Reply, TokenSequence
from rlvr.agents.episode import Episode, RolloutRequest, Turn
from rlvr.agents.evaluation import Evaluation, evaluate, summarise, task_requests
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ConstantAgent, ExpertAgent, HumanAgent, RandomAgent
from rlvr.envs.core.deprecation import renamed_in_module

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

__getattr__ = renamed_in_module(__name__, {"Request": "RolloutRequest"}, globals())
