"""What `rlvr eval` says of whether it would give the same episodes again: what was seeded, and what was not."""

from __future__ import annotations

import argparse

TASKS = "tasks (--seed {})"


def determinism(options: argparse.Namespace, scripted: bool) -> dict[str, list[str]]:
    """What is ``seeded``, and what is ``not_seeded`` and may differ the next time.

    Args:
        options: of `rlvr eval`.
        scripted: whether the agent is one without a model.
    """
    seeded, loose = [TASKS.format(options.seed)], []
    sampled = options.temperature > 0
    if scripted:
        seeded.append("the agent's actions")
    elif options.endpoint is not None:
        if sampled:
            seeded.append("each call, by a seed that is sent")
            loose.append("whether the server heeds the seed")
        else:
            loose.append("the server, which is asked for its likeliest token without a seed")
        loose.append("the server's batches, which change the last bits of its numbers")
    else:
        seeded.append("the sampling of each turn" if sampled else "nothing is sampled at temperature 0")
        loose.append("the last bits of the model's numbers, which depend on the batch, the threads and the device")
    return {"seeded": seeded, "not_seeded": loose}


def as_line(found: dict[str, list[str]]) -> str:
    """The same as one line."""
    loose = ", ".join(found["not_seeded"]) or "nothing; a second run plays the same episodes"
    return f"seeded: {', '.join(found['seeded'])}; not seeded: {loose}"
