"""Controls for spurious rewards (arXiv 2506.10947): rewards that know nothing of the answer, or pay for wrong ones.

A method that still "learns" under them learns something else than the task. The verdict keeps the status of the true
grade, so that accuracy is measured while the reward is not it.
"""

from __future__ import annotations

import hashlib

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.errors import BadOption
from rlvr.envs.rewards.extraction import MARKERS, extract
from rlvr.envs.rewards.rubric import Rubric, Sample


class RandomReward(Rubric):
    """1 with a fixed probability, whatever the answer; the same completion always gets the same reward.

    Args:
        inner: the true grade, for the status.
        probability: of a reward of 1.
        seed: another seed pays other completions.
    """

    def __init__(self, inner: Rubric, *, probability: float = 0.5, seed: int = 0) -> None:
        if not 0.0 <= probability <= 1.0:
            raise BadOption(f"probability must be in [0, 1], got {probability!r}")
        self.inner = inner
        self.probability = probability
        self.seed = seed

    def evaluate(self, sample: Sample) -> Verdict:
        """Draws from a hash of seed, prompt and completion; the status stays the true grade's."""
        text = f"{self.seed}\0{sample.prompt}\0{sample.completion}".encode("utf-8", "surrogatepass")
        draw = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64
        return _instead(self.inner.evaluate(sample), float(draw < self.probability), "random")


class IncorrectReward(Rubric):
    """1 for an answer that can be read and is wrong, 0 for a right one and for none."""

    def __init__(self, inner: Rubric) -> None:
        self.inner = inner

    def evaluate(self, sample: Sample) -> Verdict:
        """Pays 1 for the status ``wrong`` alone: an unreadable answer gets 0, as a right one does."""
        verdict = self.inner.evaluate(sample)
        return _instead(verdict, float(verdict.status == "wrong"), "incorrect")


class MarkerReward(Rubric):
    """1 for any answer behind a marker, right or wrong."""

    def __init__(self, inner: Rubric, *, markers: tuple[str, ...] = MARKERS) -> None:
        self.inner = inner
        self.markers = markers

    def evaluate(self, sample: Sample) -> Verdict:
        """Pays 1 if an answer stands behind one of the markers, whatever it is."""
        extraction = extract(sample.completion, self.markers)
        return _instead(self.inner.evaluate(sample), float(extraction.answer is not None), "marker")


def _instead(verdict: Verdict, reward: float, name: str) -> Verdict:
    if not verdict.valid:
        return verdict
    return verdict.replace(reward=reward, parts={name: reward, "true": verdict.reward})
