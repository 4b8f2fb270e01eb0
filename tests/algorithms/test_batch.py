"""Rows, micro-batches and minibatches: every row once, every token in its place, no group in two parts."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.agents.conversation import TokenSequence
from rlvr.algorithms.data.batch import Rows, micro_batches, pad, stack

CPU = torch.device("cpu")
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
def test_micro_batches_hold_every_row_once_within_the_budget(rows: list[TokenSequence], budget: int):
    seen = []
    for micro in micro_batches(rows, budget, 0, CPU):
        seen += micro.places
        assert micro.ids.shape == micro.mask.shape
        assert micro.ids.numel() <= budget or len(micro.places) == 1
        assert micro.ids.shape[1] == max(len(rows[i]) for i in micro.places), "padded further than the longest"
        for line, i in enumerate(micro.places):
            length = len(rows[i])
            assert micro.ids[line].tolist() == rows[i].ids + [0] * (micro.ids.shape[1] - length)
            assert micro.mask[line].tolist() == [bool(m) for m in rows[i].mask] + [False] * (
                micro.ids.shape[1] - length
            )
    assert sorted(seen) == list(range(len(rows)))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.integers(1, 8))
def test_minibatches_split_no_group_and_lose_no_row(group: list[int], count: int):
    rows = Rows(
        [TokenSequence([i], [1], [0.0]) for i in range(len(group))],
        torch.arange(len(group)).float(),
        torch.tensor(group),
        old=[torch.tensor([float(i)]) for i in range(len(group))],
        ref=[torch.tensor([10.0 + i]) for i in range(len(group))],
    )
    parts = rows.minibatches(count)
    assert len(parts) == min(count, len(set(group))), "as many as there can be"
    where: dict[int, int] = {}
    seen = []
    for number, part in enumerate(parts):
        for line in range(len(part)):
            place = part.sequences[line].ids[0]
            seen.append(place)
            assert where.setdefault(int(part.group[line]), number) == number
            assert int(part.group[line]) == group[place]
            assert float(part.advantages[line]) == place
            assert (float(part.old[line]), float(part.ref[line])) == (place, 10.0 + place)
    assert sorted(seen) == list(range(len(group)))
    sizes = [len(set(part.group.tolist())) for part in parts]
    assert max(sizes) - min(sizes) <= 1, "parts of nearly equal size"


@given(sequences)
def test_padding_names_places_and_stacking_undoes_nothing(rows: list[TokenSequence]):
    chosen = list(range(len(rows)))[::2]
    padded = pad(rows, chosen, 0, CPU)
    columns = stack([torch.tensor(rows[i].logprobs) for i in chosen], padded.ids.shape[1], CPU)
    assert columns.shape == padded.ids.shape
    for line, i in enumerate(chosen):
        assert columns[line, : len(rows[i])].tolist() == rows[i].logprobs
        assert not columns[line, len(rows[i]) :].any()
