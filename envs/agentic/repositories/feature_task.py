"""RepoFeature: build what a package lacks from its specification, with the tools of RepoRepair or by one patch."""

from __future__ import annotations

from collections.abc import Iterator

from rlvr.envs.agentic.repositories.editing import MAX_VIEWED, changes_between, lines_that_differ
from rlvr.envs.agentic.repositories.task import RepositoryTask, RepoWorld
from rlvr.envs.tools import Call, Session


class RepoFeature(RepositoryTask):
    """Build a feature that a generated package lacks, from its specification: through tools, or by one patch.

    Levels 1 to 5: one function or method of up to ten lines; up to three in one module, at greater length; three to
    eight in one module, often a class; two modules, of which one builds on the other; five to sixteen definitions in
    three modules or more of a large package, with one example of each.

    Observation: the specification (signatures, rules, examples with values and errors) and the files; then what each
    call gave.
    Actions: calls of the tools; a reply without a call hands the repository in, with the patch that it holds in a
    fence ```diff, if any.
    Reward: 1 if the package passes all hidden tests in a fresh sandbox, those of the feature, on other inputs than the
    examples', and those of all the rest, else 0.
    Episode end: a reply without a call, or the turns are used up.

    Args:
        tool_style: how calls are written, one of ``rlvr.envs.tools.STYLES``.
        tools_in: ``system`` describes the tools in the system prompt; ``template`` leaves them to the chat template.
        max_calls: calls an episode may make; the level decides if None.
        max_output: characters of a call's output that are shown.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine.
    """

    work = "feature"
    task = (
        "You build a feature into a Python package. You see its specification, and work on the repository with tools. "
        "Hidden tests check the feature on other inputs than the examples, and that all else works as before. Only the "
        "package's own folder counts. When it is built, reply without a call: your reply hands the repository in. "
        "Instead of calling edit_file you may put a unified diff into that reply, between ```diff and ```."
    )

    def difficulty(self, state: Session[RepoWorld]) -> float:
        """Lines of code that are missing, times the modules that lack some."""
        given = state.world.repository()
        lines = sum(
            max(0, after.count("\n") - before.count("\n"))
            for module in given.missing
            for before, after in changes_between(given.files.get(given.path(module), ""), given.package.modules[module])
        )
        return float(len(given.missing) * lines)

    def steps(self, world: RepoWorld) -> Iterator[Call | str]:
        """Look at each module, write what it lacks, run the examples, and see that the tests pass."""
        given = world.repository()
        if len(given.package.modules) > 4:
            yield Call("list_files", {})
        for module in given.missing:
            path, right = given.path(module), given.package.modules[module]
            if path not in given.files:
                yield Call("write_file", {"path": path, "text": right})
                continue
            for first_line in range(1, given.files[path].count("\n") + 1, MAX_VIEWED):
                yield Call("view_file", {"path": path, "first_line": first_line})
            for before, after in changes_between(given.files[path], right):
                old, new = lines_that_differ(before, after)
                yield Call("edit_file", {"path": path, "old": old, "new": new})
        yield Call("shell", {"command": f"python3 - <<'END'\n{_printing(given.issue)}\nEND"})
        yield Call("run_tests", {})
        modules = " and ".join(f"{module}.py" for module in given.missing)
        yield f"I have built it into {modules}; the examples give what they should, and the tests pass."


def _printing(issue: str) -> str:
    """The program of a specification's examples, which prints the value of the first one that raises nothing."""
    block = issue.rpartition("```python\n")[2].partition("\n```")[0]
    imports, *examples = block.split("\n\n")
    example = next((each for each in examples if "\n# raises " not in each), examples[0])
    *program, value, _ = example.split("\n")
    return "\n".join([imports, *program, f"print({value})"])
