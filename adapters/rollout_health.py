"""Health of saved rollouts: whether records are whole, models answered, tokens fit the text, and groups say anything.

Whether an answer is right is no matter here. The first fourteen checks have the names of NeMo Gym's health checks, and
are defined by their sentences below; the others are the alarms of our training, read off the records. Files are those
that the viewer reads: episodes of rlvr, verifiers, Inspect, TRL and NeMo Gym among them.

>>> print(rollout_report(Path("runs/eval/episodes.jsonl")))                              # doctest: +SKIP
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Final

from rlvr.adapters.viewer.foreign import READERS, trace_of
from rlvr.adapters.viewer.nemo_gym_records import token_lists
from rlvr.adapters.viewer.traces import INVALID, NotATrace, Trace, list_of, mapping_of, mappings_of, whole_of
from rlvr.agents.evaluation.reward_hacking import GradedReply, find_signs, reply_key
from rlvr.agents.evaluation.summary import CUT, MAX_SHARE
from rlvr.envs.core.json_text import load_json
from rlvr.envs.validation.report import Check, CheckResult, Severity, ValidationReport

GROUP: Final = "Healthy rollouts"
LISTED: Final = 8  # records that a finding names
FIRST: Final = 5  # lines of a file by which it is told from a table
LOOP: Final = 400  # characters at the end of a reply that a loop fills
PERIOD: Final = 100  # characters that a loop repeats, at most
MANY: Final = 5  # groups, or replies, from which on a share says something
MOST: Final = 0.5  # of the replies or answers
NO_CALL: Final = ("error", "thought_only", "empty")  # stops and flaws in the place of a reply


@dataclass(slots=True)
class SavedRollout:
    """One record of a file: its number from 1 on, its trace, and the object itself where the file is lines of JSON."""

    number: int
    trace: Trace
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...] | None:
        """What no second record may share; None where the record does not say."""
        trace = self.trace
        if trace.source == "verifiers" and self.record.get("id") and "traces" in self.record:
            return ("id", self.record["id"])
        if trace.source not in ("rlvr", "inspect", "nemo_gym") or not (trace.key or trace.task):
            return None
        salt = trace.key if trace.source == "rlvr" else ""
        return (trace.source, trace.env, trace.task, trace.group, trace.sample, trace.step, salt)

    @property
    def failed_calls(self) -> list[str]:
        """What went wrong in the model's calls, in order; "" for a call that was answered."""
        calls = [call for agent in mappings_of(self.record.get("traces")) for call in mappings_of(agent.get("calls"))]
        if calls:
            return [
                str(mapping_of(call["error"]).get("message") or call["error"]) if call.get("error") else ""
                for call in calls
            ]
        outcomes = [next((m for m in (message.flaw, message.stop) if m in NO_CALL), "") for message in self.actions]
        response = mapping_of(self.record.get("response"))
        if error := response.get("error") or (response.get("status") == "failed" and "the response failed"):
            outcomes.append(str(mapping_of(error).get("message") or error))
        return outcomes

    @property
    def actions(self) -> list[Any]:
        """The messages that the policy wrote."""
        return [message for message in self.trace.messages if message.is_action]

    @property
    def sampled(self) -> int | None:
        """The tokens that the record itself holds as sampled; None where it holds no tokens."""
        if lists := token_lists(self.record):
            return sum(len(ids) for ids, _ in lists)
        return int(sum(mask)) if (mask := self.trace.columns.get("mask")) else None


Problem = Callable[[SavedRollout], str]  # what is wrong with a rollout, in words; "" for nothing
OF_ONE: dict[str, tuple[Check, Problem]] = {}
OF_ALL: dict[str, tuple[Check, Callable[[Sequence[SavedRollout], CheckResult], None]]] = {}


def _check(id: str, sentence: str, severity: Severity, remedy: str) -> Check:
    return Check(id, GROUP, sentence, None, severity, remedy)


def of_one(id: str, sentence: str, severity: Severity, remedy: str) -> Callable[[Problem], Problem]:
    """Register a check of single rollouts."""

    def registered(problem: Problem) -> Problem:
        OF_ONE[id] = _check(id, sentence, severity, remedy), problem
        return problem

    return registered


def of_all(id: str, sentence: str, severity: Severity, remedy: str) -> Callable[[Any], Any]:
    """Register a check of all rollouts together."""

    def registered(run: Any) -> Any:
        OF_ALL[id] = _check(id, sentence, severity, remedy), run
        return run

    return registered


EXECUTION: Final = _check(
    "check_execution_error", "Every check runs to its end on every record.", "high", "Report the record to us."
)
UNREADABLE: Final = _check(
    "record_unreadable", "Every record can be read.", "high", "Find out what wrote it, and write it again."
)


@of_all("rollout_duplicate_identity", "No two records are of one rollout.", "high", "Append each rollout once.")
def _duplicates(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    of_identity: dict[tuple[Any, ...], list[SavedRollout]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.identity is not None:
            of_identity[rollout.identity].append(rollout)
    result.tries = sum(map(len, of_identity.values()))
    if not result.tries:
        result.skipped = "no record names its task and sample"
    twice = [each for same in of_identity.values() if len(same) > 1 for each in same]
    _note(result, [(each, "another record is of the same rollout") for each in twice], len(rollouts))


@of_one(
    "rollout_missing_agent_turns", "Every rollout has a turn of the agent.", "high", "Leave it out, or play it again."
)
def _no_turns(rollout: SavedRollout) -> str:
    return "" if rollout.actions else "it has no turn of the agent"


@of_one(
    "rollout_ended_on_failed_model_call",
    "No rollout ends on a call of the model that failed.",
    "medium",
    "Play it again: what it was paid is not the policy's.",
)
def _ended_on_failure(rollout: SavedRollout) -> str:
    last = rollout.failed_calls[-1:]
    return f"its last call of the model failed: {last[0]}" if last and last[0] else ""


@of_one("agent_turn_hollow", "Every turn of the agent says or calls something.", "medium", "Read what the server sent.")
def _hollow(rollout: SavedRollout) -> str:
    hollow = [
        number
        for number, message in enumerate(rollout.actions, 1)
        if not message.text.strip() and not message.calls and not message.flaw and message.stop not in NO_CALL
    ]
    return f"turn {hollow[0]} of the agent has neither text nor call" if hollow else ""


@of_one(
    "model_call_zero_completion_tokens",
    "Every reply has tokens.",
    "medium",
    "Ask the server why it ended at once, and count what it sampled.",
)
def _no_tokens(rollout: SavedRollout) -> str:
    if any(not ids for ids, _ in token_lists(rollout.record)):
        return "an item of the output has an empty list of sampled tokens"
    written = any(message.text or message.calls for message in rollout.actions)
    if written and rollout.trace.usage.get("completion_tokens") == 0:
        return "the agent wrote, and 0 tokens were counted"
    mask, start = rollout.trace.columns.get("mask"), 0
    for number, message in enumerate(rollout.actions if mask else (), 1):
        assert mask is not None
        if message.end > start and (message.text or message.calls) and not sum(mask[start : message.end]):
            return f"turn {number} of the agent has no sampled token"
        start = max(start, message.end)
    return ""


@of_all("model_call_missing_token_counts", "Every rollout says how many tokens were sampled.", "low", "Keep the usage.")
def _no_counts(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    result.tries = len(rollouts)
    missing = [each for each in rollouts if each.sampled is None and "completion_tokens" not in each.trace.usage]
    if len(missing) == len(rollouts):
        result.skipped = "no record counts tokens"
        return
    _note(result, [(each, "it has no count of sampled tokens, as others have") for each in missing], len(rollouts))


@of_one(
    "trajectory_capture_mismatch",
    "Tokens, masks and log-probabilities are of one length, and fit the turns.",
    "high",
    "Train on none of it: what was sampled is not what stands there.",
)
def _mismatch(rollout: SavedRollout) -> str:
    tokens = mapping_of(rollout.record.get("tokens"))
    lengths = {name: len(tokens[name]) for name in ("ids", "mask", "logprobs") if list_of(tokens.get(name))}
    if len(set(lengths.values())) > 1:
        return "its " + ", ".join(f"{name} has {size}" for name, size in lengths.items())
    for ids, logprobs in token_lists(rollout.record):
        if logprobs and len(ids) != len(logprobs):
            return f"an item has {len(ids)} sampled tokens and {len(logprobs)} log-probabilities"
    for agent in mappings_of(rollout.record.get("traces")):
        for node in mappings_of(agent.get("nodes")):
            ids, mask = list_of(node.get("token_ids")), list_of(node.get("mask"))
            if len(ids) != len(mask):
                return f"a message has {len(ids)} tokens and a mask of {len(mask)}"
            logprobs = list_of(node.get("logprobs"))
            if logprobs and len(logprobs) != sum(map(bool, mask)):
                return f"a message has {sum(map(bool, mask))} sampled tokens and {len(logprobs)} log-probabilities"
    ends = [message.end for message in rollout.actions if message.end]
    if ends != sorted(ends) or any(end > len(rollout.trace.ids) for end in ends if rollout.trace.ids):
        return f"its turns end at tokens {ends}, and it has {len(rollout.trace.ids)}"
    return ""


@of_one(
    "model_call_failed",
    "Every call of the model is answered.",
    "medium",
    "See which, and whether they gather in one task.",
)
def _failed(rollout: SavedRollout) -> str:
    failed = [text for text in rollout.failed_calls if text]
    return f"{len(failed)} of {len(rollout.failed_calls)} calls of the model failed: {failed[0]}" if failed else ""


@of_one(
    "rollout_token_count_mismatch",
    "The count of sampled tokens is that of the tokens in the record.",
    "high",
    "Find out which is true before anything is learnt or charged by it.",
)
def _miscounted(rollout: SavedRollout) -> str:
    counted = rollout.trace.usage.get("completion_tokens")
    if rollout.sampled is not None and counted is not None and counted != rollout.sampled:
        return f"{counted:.0f} sampled tokens are counted, and {rollout.sampled} stand there"
    usage = mapping_of(mapping_of(rollout.record.get("response")).get("usage"))
    asked, sampled, total = (whole_of(usage.get(name)) for name in ("input_tokens", "output_tokens", "total_tokens"))
    if asked is not None and sampled is not None and total is not None and asked + sampled != total:
        return f"its usage adds up to {asked + sampled} tokens, and says {total}"
    return ""


@of_one(
    "model_call_runaway_generation",
    "No reply runs into its limit, or on, in a loop.",
    "medium",
    "Limit the reply, and look at temperature and stop tokens.",
)
def _runaway(rollout: SavedRollout) -> str:
    for number, message in enumerate(rollout.actions, 1):
        text = message.reasoning + message.text
        if period := _loop(text, LOOP if message.stop in CUT else 5 * LOOP):
            return f"turn {number} of the agent ends in a loop of {text[-period:][:40]!r}"
    return ""


def _loop(text: str, size: int) -> int:
    """The period of the loop that fills the last ``size`` characters of a text; 0 without one."""
    tail = text[-size:]
    if len(tail) < size or not tail.strip():
        return 0
    return next((n for n in range(1, PERIOD + 1) if tail[n:] == tail[:-n]), 0)


def _tasks(rollouts: Sequence[SavedRollout]) -> Iterator[list[SavedRollout]]:
    """The rollouts of each task that has two or more."""
    of_task: dict[Any, list[SavedRollout]] = defaultdict(list)
    for rollout in rollouts:
        trace = rollout.trace
        task = trace.task or (trace.group is not None and f"{trace.env}/{trace.group}")
        if task:
            of_task[task].append(rollout)
    return (each for each in of_task.values() if len(each) > 1)


@of_all(
    "task_consistently_unhealthy",
    "No task has a finding in each of its rollouts.",
    "high",
    "Look at the task: it is the same in all of them.",
)
def _unhealthy_tasks(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    problems = [problem for check, problem in OF_ONE.values() if check.severity in ("high", "medium")]

    def unhealthy(rollout: SavedRollout) -> bool:
        return any(problem(rollout) for problem in problems)

    _whole_tasks(rollouts, result, unhealthy, "each of its {} rollouts has a finding")


@of_all(
    "task_no_successful_model_calls",
    "Every task has a rollout in which the model answered.",
    "high",
    "See what in the prompt the server refuses: its length, its tools, its images.",
)
def _unanswered_tasks(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    def unanswered(rollout: SavedRollout) -> bool:
        return not rollout.actions or (bool(rollout.failed_calls) and all(rollout.failed_calls))

    _whole_tasks(rollouts, result, unanswered, "in none of its {} rollouts did the model answer")


def _whole_tasks(
    rollouts: Sequence[SavedRollout], result: CheckResult, holds: Callable[[SavedRollout], bool], text: str
) -> None:
    tasks = list(_tasks(rollouts))
    result.tries = len(tasks)
    if not tasks:
        result.skipped = "no task has two rollouts"
    hits = [(task[0], text.format(len(task))) for task in tasks if all(map(holds, task))]
    _note(result, hits, len(tasks), "tasks")


# the alarms of our training


@of_all(
    "invalid_rollouts",
    f"At most {MAX_SHARE:.0%} of the rollouts failed through no fault of the policy.",
    "medium",
    "Mend the commonest cause: who is left out is not left out at random.",
)
def _invalid(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    result.tries = len(rollouts)
    invalid = [each for each in rollouts if each.trace.status in INVALID]
    if len(invalid) > MAX_SHARE * len(rollouts):
        _note(result, [(each, each.trace.error or each.trace.status) for each in invalid], len(rollouts))


@of_all(
    "groups_without_variance",
    "Some group has rollouts with different rewards.",
    "medium",
    "Take an easier or a harder level: groups that agree teach nothing.",
)
def _no_variance(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    judged = [each for each in rollouts if each.trace.reward is not None and each.trace.status not in INVALID]
    groups = list(_tasks(judged))
    result.tries = len(groups)
    if len(groups) < MANY:
        result.skipped = f"under {MANY} tasks have two judged rollouts"
        return
    differing = sum(len({each.trace.reward for each in group}) > 1 for group in groups)
    result.measured |= {"groups": len(groups), "with variance": differing}
    if not differing:
        result.add("variance", f"the rewards of each of {len(groups)} groups are equal")


@of_all(
    "replies_cut",
    f"Under {MOST:.0%} of the replies run into the token limit.",
    "medium",
    "Raise the limit, or reward shorter replies.",
)
def _cut(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    stops = [message.stop for each in rollouts for message in each.actions if message.stop]
    result.tries = len(stops)
    if len(stops) < MANY:
        result.skipped = "few or no records say why a reply ended"
        return
    share = sum(stop in CUT for stop in stops) / len(stops)
    result.measured["share"] = round(share, 4)
    if share >= MOST:
        result.add("cut", f"{share:.0%} of {len(stops)} replies were cut at the token limit")


@of_all(
    "answers_unreadable",
    f"Under {MOST:.0%} of the answers are in a form that the grader cannot read.",
    "medium",
    "Say the form in the prompt, or begin with examples.",
)
def _unreadable(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    statuses = [each.trace.status for each in rollouts if each.trace.source == "rlvr" and each.trace.status]
    result.tries = len(statuses)
    if len(statuses) < MANY:
        result.skipped = "few or no records say whether the answer could be read"
        return
    share = statuses.count("unparsable") / len(statuses)
    result.measured["share"] = round(share, 4)
    if share >= MOST:
        result.add("unreadable", f"{share:.0%} of {len(statuses)} answers could not be read")


@of_all(
    "reply_paid_on_many_tasks",
    "No one reply is paid on many tasks, more often than luck explains.",
    "medium",
    "Read such replies: the grader, or the tasks, may be the same everywhere.",
)
def _constant(rollouts: Sequence[SavedRollout], result: CheckResult) -> None:
    replies = [
        GradedReply(
            each.number, each.trace.env, each.trace.task, reply_key(each.trace.answer), reply_key(each.trace.reply()),
            each.trace.sampled or len(each.trace.actions()),
            None if each.trace.status in INVALID else each.trace.reward, each.trace.status, each.trace.error,
        )
        for each in rollouts
        if each.trace.task
    ]  # fmt: skip
    result.tries = len(replies)
    if not replies:
        result.skipped = "no record names its task"
        return
    for cluster in find_signs(replies).clusters:
        if cluster.suspicious and cluster.text:
            text = f"the {cluster.kind} {cluster.text[:60]!r} is paid on {cluster.rewarded} of {cluster.tasks} tasks"
            result.add(cluster.kind, f"{text}: records {', '.join(map(str, cluster.examples[:LISTED]))}")


def _note(result: CheckResult, hits: Sequence[tuple[SavedRollout, str]], count: int, noun: str = "rollouts") -> None:
    """One finding for all rollouts that a check is about."""
    if not hits:
        return
    numbers = ", ".join(str(rollout.number) for rollout, _ in hits[:LISTED]) + (", …" if len(hits) > LISTED else "")
    text = f"{len(hits)} of {count} {noun} (record {numbers}): {hits[0][1]}"
    result.add("records", text, records=[rollout.number for rollout, _ in hits[:100]])


# files


def reads_as_rollouts(path: Path) -> bool:
    """Whether a file holds rollouts: one of its first records was played by somebody, and is no row of a table."""
    if not path.is_file() or path.suffix not in (".jsonl", *READERS):
        return False
    return any(_is_played(trace) for trace in islice(_first_traces(path), FIRST))


def _first_traces(path: Path) -> Iterator[Trace]:
    try:
        if path.suffix in READERS:
            yield from READERS[path.suffix](path)
            return
        with path.open("rb") as file:
            for line in islice(file, FIRST):
                with suppress(NotATrace, ValueError):
                    yield trace_of(load_json(line))
    except (ValueError, ImportError):
        return


def _is_played(trace: Trace) -> bool:
    return trace.source != "chat" or trace.reward is not None


def read_rollouts(path: Path, unreadable: CheckResult) -> list[SavedRollout]:
    """The rollouts of a file; what cannot be read is a finding."""
    rollouts: list[SavedRollout] = []
    if path.suffix in READERS:
        try:
            for trace in READERS[path.suffix](path):
                rollouts.append(SavedRollout(len(rollouts) + 1, trace))
        except (ValueError, ImportError, OSError) as error:
            unreadable.add("file", f"after {len(rollouts)} records: {error}")
        unreadable.tries = len(rollouts)
        return rollouts
    problems = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            unreadable.tries += 1
            try:
                record = load_json(line)
                rollouts.append(SavedRollout(number, trace_of(record), record))
            except (NotATrace, ValueError) as error:
                problems.append((number, str(error)))
    if problems:
        numbers = ", ".join(str(number) for number, _ in problems[:LISTED])
        text = f"{len(problems)} of {unreadable.tries} records (line {numbers}) cannot be read: {problems[0][1]}"
        unreadable.add("records", text, records=[number for number, _ in problems[:100]])
    return rollouts


def rollout_report(path: Path) -> ValidationReport:
    """The health of the rollouts in a file: lines of JSON, a log of Inspect, or TRL's Parquet.

    Raises:
        OSError: it cannot be opened.
        ValueError: it holds no rollouts.
    """
    began = monotonic()
    execution, unreadable = CheckResult(EXECUTION), CheckResult(UNREADABLE)
    rollouts = read_rollouts(path, unreadable)
    if not rollouts and not unreadable.findings:
        raise ValueError(f"{path} holds no rollouts")
    results = {id: CheckResult(check) for id, (check, _) in (OF_ONE | OF_ALL).items()}
    for id, (_, problem) in OF_ONE.items():
        hits = []
        for rollout in rollouts:
            execution.tries += 1
            try:
                if text := problem(rollout):
                    hits.append((rollout, text))
            except Exception as error:
                execution.add("raised", f"{id} raised {type(error).__name__} on record {rollout.number}: {error}")
        results[id].tries = len(rollouts)
        _note(results[id], hits, len(rollouts))
    for id, (_, run) in OF_ALL.items():
        execution.tries += 1
        try:
            run(rollouts, results[id])
        except Exception as error:
            execution.add("raised", f"{id} raised {type(error).__name__}: {error}")
    assumed = {"records": f"{len(rollouts)} of {', '.join(sorted({each.trace.source for each in rollouts})) or 'none'}"}
    report = ValidationReport(str(path), [execution, unreadable, *results.values()], assumed)
    report.seconds = monotonic() - began
    return report
