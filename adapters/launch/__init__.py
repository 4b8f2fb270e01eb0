"""A training config of ours as the command, the rows and the files of another trainer; see docs/laptop_to_cluster.md.

`translate` says for every setting whether it carries over exactly, approximately or not at all, and refuses what would
change the algorithm. Nothing here imports the trainers: their options were read from the releases that `TESTED` names.
"""

from rlvr.adapters.launch.engines import ENGINES, require_own_folder, translate
from rlvr.adapters.launch.translation import LaunchRefused, Machines, Translation

__all__ = ["ENGINES", "LaunchRefused", "Machines", "Translation", "require_own_folder", "translate"]
