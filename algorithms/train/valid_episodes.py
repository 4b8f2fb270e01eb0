"""Steps from which nothing can be learned, since no episode of theirs was valid: some in a row end a run."""

from __future__ import annotations

import gymnasium as gym

from rlvr.agents.episode import Episode

FRUITLESS_STEPS = 3  # without a valid episode, after which a run ends


class NoValidEpisodeError(gym.error.Error):
    """The environment fails in every episode."""


class FruitlessSteps:
    """Ends a run whose steps have no valid episode: nothing is learned from them, and they would be over in no time.

    Attributes:
        count: of such steps, one after another.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, episodes: list[Episode]) -> None:
        """Count a step.

        Raises:
            NoValidEpisodeError: it is the last of so many.
        """
        self.count = 0 if any(episode.valid for episode in episodes) else self.count + 1
        if self.count >= FRUITLESS_STEPS:
            verdict = episodes[-1].verdict if episodes else None
            reason = verdict.reason if verdict is not None else "there was no episode"
            raise NoValidEpisodeError(
                f"no episode of {self.count} steps in a row was valid, so nothing was learned; the last failed: "
                f"{reason}. Mend that, and go on with --resume"
            )
