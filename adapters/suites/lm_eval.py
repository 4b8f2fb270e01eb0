"""lm-evaluation-harness: an environment of one turn as one of its tasks, graded here; see docs/adapters/lm_eval.md.

>>> from rlvr.adapters.suites.lm_eval import export                        # doctest: +SKIP
>>> export("rlvr/WordProblems-v0", 500, "tasks")                    # doctest: +SKIP
$ lm_eval run --model hf --model_args pretrained=… --tasks rlvr_wordproblems --include_path tasks

The task is a YAML file that names this module, and a file of documents. A document holds the prompt and the task's
spec, never an answer; the reply is graded by the environment itself.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rlvr.adapters.rows import rows, write_rows
from rlvr.adapters.spec import grade
from rlvr.adapters.versions import require
from rlvr.agents.conversation import as_one_text
from rlvr.envs.core.files import require_new, write_new
from rlvr.envs.core.verdict import env_error

LOG = logging.getLogger(__name__)
TESTED = ("lm-eval", "0.4.13", "0.5")
NAME = re.compile(r"[A-Za-z0-9_.-]+")
TASK = """\
# {env_id}, written by rlvr.adapters.suites.lm_eval
task: {name}
tag: rlvr
dataset_path: json
dataset_kwargs:
  data_files:
    test: {documents}
test_split: test
output_type: generate_until
{description}doc_to_text: "{{{{prompt}}}}"
doc_to_target: ""
process_results: !function rlvr.adapters.suites.lm_eval.process_results
generation_kwargs:
  until: []
  do_sample: false
  max_gen_toks: {max_gen_toks}
num_fewshot: 0
metric_list:
  - {{metric: reward, aggregation: nanmean, higher_is_better: true}}
  - {{metric: success, aggregation: nanmean, higher_is_better: true}}
  - {{metric: invalid, aggregation: mean, higher_is_better: false}}
metadata:
  version: 1.0
"""


def export(
    env_id: str,
    n: int | None,
    folder: str | Path,
    *,
    name: str | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    use_system: bool = True,
    max_gen_toks: int = 1024,
    force: bool = False,
) -> Path:
    """Write a task for ``--include_path folder``: ``<name>.yaml`` and ``<name>.jsonl``; the path of the first.

    Args:
        env_id: an id, perhaps with the module that registers it before a colon.
        n: how many tasks; None for all of a table.
        folder: where to; made when it is not there. The YAML file names the documents by their full path.
        name: of the task; by default ``rlvr_wordproblems`` for ``rlvr/WordProblems-v0``.
        seed: another seed, other tasks.
        settings: for ``gym.make``: split, level, …
        use_system: whether the environment's system prompt is the task's description, which becomes the system message
            under ``--apply_chat_template``, and stands before the question without.
        max_gen_toks: the longest reply.
        force: write over files of those names that nothing of ours wrote as they are now.

    Raises:
        ValueError: an environment of several turns, a name that is no name, a file that is there, or as
            `rlvr.adapters.rows`.
    """
    name = name or "rlvr_" + re.sub(r"-v\d+$", "", env_id.rpartition("/")[2]).lower().replace(".", "_")
    if not NAME.fullmatch(name):
        raise ValueError(f"a task's name has letters, digits, '_', '-' and '.', not {name!r}")
    if max_gen_toks < 1:
        raise ValueError(f"max_gen_toks must be at least 1, got {max_gen_toks}")
    folder = Path(folder).resolve()
    task, questions = folder / f"{name}.yaml", folder / f"{name}.jsonl"
    for path in (task, questions):
        require_new(path, force)
    table = rows(env_id, n, seed=seed, kwargs=settings, single_turn=True)
    documents = [
        {
            "index": row["index"],
            "system": row["prompt"][0]["content"] if row["prompt"][0]["role"] == "system" else "",
            "prompt": as_one_text([message for message in row["prompt"] if message["role"] != "system"]),
            "spec": row["spec"],
            "env_digest": row["env_digest"],
        }
        for row in table
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = write_rows(documents, questions, force=force)
    description = (
        'description: "{{system}}\\n\\n"\n' if use_system and any(each["system"] for each in documents) else ""
    )
    text = TASK.format(
        env_id=env_id, name=name, documents=json.dumps(str(path)), description=description, max_gen_toks=max_gen_toks
    )
    write_new(task, text, force)
    return task


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """What a reply is worth: the harness calls this. NaN, which the metrics leave out, where the fault was not the
    model's; ``invalid`` counts those."""
    _checked()
    try:
        verdict = grade(doc["spec"], results[0])
    except Exception as error:  # the other documents go on
        verdict = env_error(error)
    if not verdict.valid:
        LOG.warning("task %s was not graded: %s: %s", doc.get("index"), verdict.status, verdict.reason)
        return {"reward": float("nan"), "success": float("nan"), "invalid": 1.0}
    return {"reward": verdict.reward, "success": float(verdict.success), "invalid": 0.0}


@cache
def _checked() -> None:
    require(*TESTED)
