"""Micro-batches and minibatches: every sequence once, every token where it was, no group in two parts."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.agents.conversation import TokenSequence
from rlvr.algorithms.learner.batch import TrainingBatch, pad

sequences = st.lists(
    st.integers(1, 12).flatmap(
        lambda length: st.builds(
            TokenSequence,
            st.lists(st.integers(1, 99), min_size=length, max_size=length),
            st.lists(st.integers(0, 1), min_size=length, max_size=length),
            st.lists(st.floats(-9, 0, width=32), min_size=length, max_size=length),
        )
    ),
    min_size=1,
    max_size=12,
)


@given(sequences, st.integers(1, 60))
def test_micro_batches_hold_every_sequence_once_within_the_budget(chosen: list[TokenSequence], budget: int):
    seen = []
    for indices, micro in pad(chosen).micro_batches(budget):
        seen += indices
        assert micro.ids.shape == micro.mask.shape
        assert micro.ids.numel() <= budget or len(indices) == 1
        assert micro.ids.shape[1] == max(len(chosen[i]) for i in indices), "padded further than the longest"
        for line, i in enumerate(indices):
            length = len(chosen[i])
            rest = micro.ids.shape[1] - length
            assert micro.ids[line].tolist() == chosen[i].ids + [0] * rest
            assert micro.mask[line].tolist() == [bool(m) for m in chosen[i].mask] + [False] * rest
    assert sorted(seen) == list(range(len(chosen)))


def batch_of(chosen: list[TokenSequence], group: list[int]) -> TrainingBatch:
    return TrainingBatch.of(chosen, group, max_length=9)


def test_advantages_are_none_until_they_are_computed():
    assert batch_of([TokenSequence([1], [1], [0.0])], [0]).inputs.advantages is None


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.integers(1, 8))
def test_minibatches_split_no_group_and_lose_no_sequence(group: list[int], count: int):
    each = torch.arange(len(group)).float()
    whole = batch_of([TokenSequence([i], [1], [0.0]) for i in range(len(group))], group)
    whole = whole.replace(advantages=each, old_logprobs=each[:, None], ref_logprobs=10 + each[:, None])
    parts = whole.minibatches(count)
    assert len(parts) == min(count, len(set(group))), "as many as there can be"
    where: dict[int, int] = {}
    seen = []
    for number, part in enumerate(parts):
        x = part.inputs
        for line in range(len(part)):
            index = int(part.padded.ids[line, 0])
            seen.append(index)
            assert where.setdefault(int(x.group[line]), number) == number
            assert int(x.group[line]) == group[index]
            assert float(x.advantages[line]) == index
            assert (float(x.old_logprobs[line]), float(x.ref_logprobs[line])) == (index, 10.0 + index)
    assert sorted(seen) == list(range(len(group)))
    sizes = [len(set(part.inputs.group.tolist())) for part in parts]
    assert max(sizes) - min(sizes) <= 1, "parts of nearly equal size"


@given(sequences)
def test_picking_trims_every_entry_alike(chosen: list[TokenSequence]):
    indices = list(range(len(chosen)))[::2]
    part = batch_of(chosen, [0] * len(chosen)).pick(indices)
    assert part.inputs.behaviour_logprobs.shape == part.padded.ids.shape == part.inputs.mask.shape
    for line, i in enumerate(indices):
        assert part.inputs.behaviour_logprobs[line, : len(chosen[i])].tolist() == chosen[i].logprobs
        assert not part.inputs.behaviour_logprobs[line, len(chosen[i]) :].any()
