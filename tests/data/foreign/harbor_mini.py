"""Writes harbor_trajectory.json: mini-swe-agent plays two scripted commands, Harbor converts what it logged to ATIF.

Run in an environment of its own: `pip install harbor==0.25.0 mini-swe-agent==2.4.6`, Python 3.12.
"""

import tempfile
from pathlib import Path

from harbor.agents.installed.mini_swe_agent import convert_and_save_trajectory
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

COMMANDS = (
    ("I add the numbers.", "expr 17 + 25"),
    ("The sum is 42.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo 42"),
)


def reply(number: int, text: str, command: str) -> dict:
    name = f"call_{number}"
    function = {"name": "bash", "arguments": f'{{"command": "{command}"}}'}
    call = {"id": name, "type": "function", "function": function}
    return make_toolcall_output(text, [call], [{"command": command, "tool_call_id": name}])


with tempfile.TemporaryDirectory() as folder:
    log = Path(folder) / "mini.json"
    agent = DefaultAgent(
        DeterministicToolcallModel(outputs=[reply(number, *each) for number, each in enumerate(COMMANDS)]),
        LocalEnvironment(cwd=folder),
        system_template="Use bash.",
        instance_template="{{task}}",
        output_path=log,
    )
    agent.run("What is 17 + 25?")
    convert_and_save_trajectory(log, Path("harbor_trajectory.json"), "sums")
