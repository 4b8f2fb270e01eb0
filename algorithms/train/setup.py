"""What a run is made of before its first step."""

from __future__ import annotations

from pathlib import Path

from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.runs.run_folder import RunFolder, SilentFolder


def run_folder(path: Path, resume: bool, world: ProcessWorld) -> RunFolder:
    """The folder of a run; only the first process writes in it, and it comes first.

    Raises:
        RunFolderError: the folder may not be used; all processes say so.
    """
    folder: RunFolder | None = None
    error: Exception | None = None
    if world.rank == 0:
        try:
            folder = RunFolder(path, resume=resume)
        except Exception as caught:
            error = caught
    # All must raise, or the others wait in their next collective call for one that is gone.
    error = next((one for one in world.gather(error) if one is not None), None)
    if error is not None:
        raise error
    return folder or SilentFolder(path)
