"""`inspect.eval`: inspect-ai 0.3.285 with its own mock model; `python inspect_task.py`, the log of the first format."""

from inspect_ai import Task, eval, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, _tokens, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import tool


@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: First number.
            y: Second number.
        """
        return str(x + y)

    return execute


@task
def sums():
    samples = [Sample(id=1, input="What is 2 + 3?", target="5"), Sample(id="two", input="What is 4 + 4?", target="8")]
    return Task(
        dataset=samples,
        solver=[system_message("Use the tool."), use_tools(add()), generate()],
        scorer=match(),
        epochs=2,
    )


def outputs():
    call = ModelOutput.for_tool_call
    text = ModelOutput.from_content
    name = "mockllm/model"
    for sample in range(4):
        yield call(name, "add", {"x": 2, "y": 3})
        yield text(name, "<think>the tool says so</think>5" if sample % 2 == 0 else "7")


def count(text):
    return len(text.split())


if __name__ == "__main__":
    # Its own count downloads an encoding.
    import inspect_ai.model._model as models

    _tokens.count_text_tokens = models.count_text_tokens = count
    for form in ("eval", "json"):
        model = get_model("mockllm/model", custom_outputs=list(outputs()))
        eval(sums(), model=model, log_format=form, log_dir="logs", max_samples=1, max_connections=1, display="none")
