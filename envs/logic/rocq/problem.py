"""A theorem with a proof that is known of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rlvr.envs.logic.rocq.prover import RocqStatement
from rlvr.envs.logic.rocq.script import read_script


class ProvenTheorem(NamedTuple):
    """A statement, the sentences of a proof, what makes it this problem, and the split of its kind; "" for any."""

    statement: RocqStatement
    proof: tuple[str, ...]
    content: str
    split: str = ""


def problem(statement: RocqStatement, proof: Iterable[str], content: str) -> ProvenTheorem:
    """The problem whose proof has these lines, in the sentences that a reader finds in them."""
    return ProvenTheorem(statement, tuple(read_script("\n".join(proof))), content)
