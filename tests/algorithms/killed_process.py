"""A process of torchrun's that calls `rlvr`; the second is killed when it is about to learn from its second step."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from rlvr.algorithms.train.run import Trainer
from rlvr.cli import main


def plant() -> None:
    learn = Trainer.learn

    def learn_or_die(self: Trainer, sample: Any) -> None:
        if self.step == 1:
            self.saver.wait()  # by both, since its processes agree: what is tested is the next step
            if self.world.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        learn(self, sample)

    Trainer.learn = learn_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    plant()
    sys.exit(main(sys.argv[1:]))
