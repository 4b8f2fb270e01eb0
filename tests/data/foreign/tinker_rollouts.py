"""`tinker_rollout_summaries.jsonl` and `tinker_logtree.json`: tinker-cookbook 0.6.1; `python tinker_rollouts.py`.

Its own group rollouts, records and log under a scripted policy; a token is a byte. What its trainer calls is called
here, as the trainer itself needs a server.
"""

import asyncio
import tempfile
from pathlib import Path

import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl.rollout_logging import serialize_rollout_summaries
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult
from tinker_cookbook.stores.storage import LocalStorage
from tinker_cookbook.stores.training_store import TrainingRunStore
from tinker_cookbook.utils import logtree
from tinker_cookbook.utils.logtree_formatters import ConversationFormatter

ITERATION = 3


def tokens(text):
    return tinker.ModelInput.from_ints(list(text.encode()))


class Sum(Env):
    """Two turns: a first try, and a second one after a hint."""

    def __init__(self, x, y):
        self.question, self.answer, self.turns = f"What is {x} + {y}?", str(x + y), 0

    async def initial_observation(self):
        self.seen = self.question
        with logtree.scope_header("Prompt"):
            logtree.log_formatter(ConversationFormatter([{"role": "user", "content": self.question}]))
        return tokens(self.seen), []

    async def step(self, action, *, extra=None):
        self.turns += 1
        said = bytes(action).decode()
        right = said == self.answer
        with logtree.scope_header("Policy Response"):
            content = [{"type": "thinking", "thinking": "digits"}, {"type": "text", "text": said}]
            logtree.log_formatter(ConversationFormatter([{"role": "assistant", "content": content}]))
        self.seen += said + "Again."
        return StepResult(
            reward=float(right),
            episode_done=right or self.turns == 2,
            next_observation=tokens(self.seen),
            next_stop_condition=[],
            metrics={"correct": float(right)},
            logs={"question": self.question, "answer": said},
        )


class Sums(EnvGroupBuilder):
    def __init__(self, x, y):
        self.x, self.y = x, y

    async def make_envs(self):
        return [Sum(self.x, self.y) for _ in range(2)]

    async def compute_group_rewards(self, trajectory_group, env_group):
        return [(0.0, {"turns": len(trajectory.transitions)}) for trajectory in trajectory_group]

    def logging_tags(self):
        return ["sums"]


class Scripted(TokenCompleter):
    def __init__(self, answers):
        self.answers = iter(answers)

    async def __call__(self, model_input, stop, *, max_tokens=None):
        said = list(next(self.answers).encode())
        return TokensWithLogprobs(tokens=said, maybe_logprobs=[-0.5] * len(said))


async def main():
    here = Path(__file__).resolve().parent
    policy = Scripted(["5", "4", "5", "9", "8", "7", "7"])
    builders = [Sums(2, 3), Sums(4, 4)]
    with tempfile.TemporaryDirectory() as scratch:
        store = TrainingRunStore(LocalStorage(Path(scratch)))
        with logtree.init_trace(f"RL Iteration {ITERATION}", path=None) as log:  # of the first group, as a trainer may
            groups = [await do_group_rollout(builders[0], policy)]
        groups += [await do_group_rollout(builder, policy) for builder in builders[1:]]
        store.write_logtree(ITERATION, log.to_dict())
        tags = [builder.logging_tags() for builder in builders]
        records = serialize_rollout_summaries(
            split="train", iteration=ITERATION, trajectory_groups_P=groups, taglist_P=tags
        )
        store.write_rollouts(ITERATION, records)
        for path in sorted(Path(scratch).rglob("train_*")):
            target = here / path.name.replace("train_", "tinker_")
            target.write_bytes(path.read_bytes())
            print(path.relative_to(scratch), "->", target.name)


if __name__ == "__main__":
    asyncio.run(main())
