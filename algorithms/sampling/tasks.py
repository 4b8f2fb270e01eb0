"""Which task a step asks: an order that depends on the seed alone, or a curriculum that learns from what was solved."""

from __future__ import annotations

import random
from typing import Any

from rlvr.agents.episode import RolloutRequest
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.filters.order import acting
from rlvr.envs.core.seeding import digest, stream
from rlvr.envs.curriculum.controllers import EasyToHard, LevelController, RateSampler
from rlvr.envs.curriculum.rates import PassRates, Retirement

Curriculum = LevelController | EasyToHard | RateSampler


class TaskOrder:
    """Which task has which index: every row of a table in a shuffle, again and again; or an endless stream."""

    def __init__(self, env: Any, purpose: str, seed: int) -> None:
        self.size: int | None = getattr(env, "size", None)
        # purposes have streams of their own: an evaluation asks no task of the training
        self.seed = digest(purpose, seed) % 2**32
        self._epoch, self._order = -1, list[int]()

    def request(self, index: int, **member: Any) -> RolloutRequest:
        """Task ``index`` of the order; ConfigError for an empty table. A later epoch samples with other noise."""
        if self.size is None:
            return RolloutRequest(seed=self.seed, index=index, **member)
        if not self.size:
            raise ConfigError("the data set has no rows")
        epoch, index = divmod(index, self.size)  # a table is asked whole before a row comes again
        if epoch != self._epoch:
            self._epoch, self._order = epoch, list(range(self.size))
            rng: random.Random = stream("task order", self.seed, epoch)
            rng.shuffle(self._order)
        member["salt"] += f", epoch {epoch}"  # a step may hold the end of one and the beginning of the next
        return RolloutRequest(seed=self.seed, index=self._order[index], **member)


class TaskPool:
    """The tasks of a run, drawn one after another; a curriculum and the retirement of solved tasks change the draw.

    A task of a table is known by its row, so it can be retired when it is nearly always solved, or drawn the less the
    more often it is solved. Tasks made without end never return: a curriculum draws their level.

    Attributes:
        drawn: how many tasks were drawn, retired ones too.
    """

    def __init__(
        self,
        order: TaskOrder,
        *,
        level: int,
        retirement: Retirement | None = None,
        curriculum: Curriculum | None = None,
    ) -> None:
        self.order, self.level = order, level
        self.curriculum = curriculum
        self.retirement = retirement if order.size is not None else None
        self.drawn = 0
        self.rates = PassRates()

    def draw(self, **member: Any) -> RolloutRequest:
        """The next task, as a request for one member of its group."""
        if self.curriculum is not None:
            return self._chosen(self.curriculum, member)
        for _ in range(self.order.size or 1):
            request = self.order.request(self.drawn, **member)
            self.drawn += 1
            if self.retirement is None or self.key(request) not in self.retirement:
                return request
        return request  # every task is retired: better to go on with them than to stop

    def _chosen(self, curriculum: Curriculum, member: dict[str, Any]) -> RolloutRequest:
        index, self.drawn = self.drawn, self.drawn + 1
        if self.order.size is None:
            return RolloutRequest(seed=self.order.seed, index=index, level=curriculum.draw(), **member)
        if isinstance(curriculum, RateSampler) and not curriculum.open:
            return self.order.request(index, **member)
        member["salt"] += f", draw {index}"  # one row may be drawn twice in a step, and is sampled with other noise
        return RolloutRequest(seed=self.order.seed, index=curriculum.draw(), **member)

    def level_at(self, index: int) -> int | None:
        """For demonstrations: the levels in turn, where a curriculum will draw them; None is the environment's own."""
        # demonstrations show each level once before the first comes again
        if self.curriculum is None or self.order.size is not None or self.level == 1:
            return None
        return 1 + index % self.level

    def key(self, request: RolloutRequest) -> int:
        """What a task is known by: its row, or its level."""
        if self.order.size is None:
            # tasks without end never return, so what is learned of one holds for its level
            return request.level or self.level
        return request.index or 0

    def record(self, request: RolloutRequest, successes: list[bool]) -> None:
        """Tells the curriculum, or the pass rates that retire rows, how a group's members did."""
        key, outcomes = self.key(request), [float(success) for success in successes]
        if self.curriculum is not None:
            self.curriculum.record(key, outcomes)
        elif self.retirement is not None:
            self.rates.record(key, outcomes)
            self.retirement.look(key, self.rates)

    def stats(self) -> dict[str, float]:
        """For the log: how many rows of a table are retired, how difficult the curriculum is."""
        retirement = self.curriculum.retirement if isinstance(self.curriculum, RateSampler) else self.retirement
        stats: dict[str, float] = {} if retirement is None else {"tasks_retired": len(retirement)}
        if isinstance(self.curriculum, LevelController | EasyToHard):
            stats["difficulty"] = self.curriculum.difficulty
        return stats

    def state_dict(self) -> dict[str, Any]:
        return {
            "drawn": self.drawn,
            "rates": self.rates.state(),
            "retirement": None if self.retirement is None else self.retirement.state_dict(),
            "curriculum": None if self.curriculum is None else self.curriculum.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on drawing from there."""
        self.drawn, self.rates = state["drawn"], PassRates.restore(state["rates"])
        if self.retirement is not None:
            self.retirement.load_state_dict(state["retirement"])
        if self.curriculum is not None:
            self.curriculum.load_state_dict(state["curriculum"])


def build_pool(order: TaskOrder, config: TrainConfig) -> TaskPool:
    """The pool that the section `curriculum` and the filters of a config ask for.

    Raises:
        ConfigError: a curriculum of levels for a table, which has none.
    """
    retirement = None
    if any(each.retires for each in acting(config.filters())):
        retirement = Retirement(config.selection.retire_at, config.selection.retire_after)
    curriculum = _curriculum(order, config, retirement)
    return TaskPool(order, level=config.env.level, retirement=retirement, curriculum=curriculum)


def _curriculum(order: TaskOrder, config: TrainConfig, retirement: Retirement | None) -> Curriculum | None:
    settings, levels, seed = config.curriculum, config.env.level, order.seed
    if settings.kind in ("target", "easy_to_hard") and order.size is not None:
        raise ConfigError(
            f"curriculum.kind {settings.kind} goes by levels, and {config.env.id} is a table without any; "
            "by_rate draws its rows"
        )
    if settings.kind == "target":
        return LevelController(
            levels,
            target=settings.target,
            gain=settings.gain,
            start=min(settings.start, levels),
            rehearsal=settings.rehearsal,
            seed=seed,
        )
    if settings.kind == "easy_to_hard":
        stage = settings.stage or -(-config.steps * config.prompts // levels) or 1
        return EasyToHard(levels, stage=stage, rehearsal=settings.rehearsal, seed=seed)
    if settings.kind == "by_rate" or any(each.draws_by_rate for each in acting(config.filters())):
        return RateSampler(
            range(1, levels + 1) if order.size is None else range(order.size),
            floor=settings.floor,
            decay=settings.decay,
            retire_at=retirement.at if retirement is not None and order.size is not None else None,
            min_episodes=config.selection.retire_after,
            seed=seed,
        )
    return None
