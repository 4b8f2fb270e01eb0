"""Sound: the environment runs, repeats itself, ends, and its maximum can be reached by work and by nothing else."""

from __future__ import annotations

import contextlib
import json
import math
import re
from typing import Any, Final

import gymnasium as gym
import numpy as np

from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.near_duplicates import overlap
from rlvr.envs.validation.attacks import IDLE, ODD
from rlvr.envs.validation.clock import now
from rlvr.envs.validation.commands import enders, of_another_form, out_of_range, templates
from rlvr.envs.validation.context import EXPERT_TURNS, Skip, Validation, check
from rlvr.envs.validation.report import CheckResult, Severity
from rlvr.envs.validation.search import search_solution
from rlvr.envs.validation.subject import ApiFault, NotApplicable, TaskRef, ValidationEpisode, in_order

SOUND: Final = "Sound"
DRAWN: Final = 160  # tasks of each split that are compared, or as many as are drawn in
DRAWING: Final = 5.0  # seconds
LONGEST: Final = 20_000  # turns that an episode may take where it says so itself
LONG: Final = 1_000  # turns after which an episode that has not ended is said not to end
MISSING: Final = re.compile(
    r"ModuleNotFoundError|ImportError|No module named|command not found|No such file or directory|FileNotFoundError"
    r"|not installed|Traceback \(most recent call last\)|Connection refused|timed out"
)


@check(
    "runtime.startup",
    SOUND,
    "It is made, reset and stepped, and gives what Gymnasium's API asks for.",
    remedy="Make reset give (observation, info), and step five values.",
)
def startup(v: Validation, result: CheckResult) -> None:
    """Play one episode of each level with any action that there is."""
    rng = np.random.default_rng(0)
    for ref in v.refs[:: max(1, v.count)]:
        episode = v.plays(ref, lambda env, played: v.subject.sampled(env, played, rng), turns=20)
        result.tries += 1
        if episode.error:
            result.measured["raised"] = episode.error


@check(
    "runtime.reward_well_formed",
    SOUND,
    "Every reward is a finite number within the declared range.",
    number=23,
    remedy="Clip the reward, or declare the range that it has.",
)
def reward_well_formed(v: Validation, result: CheckResult) -> None:
    """Look at the rewards of the expert's, random and empty episodes."""
    rng = np.random.default_rng(1)
    episodes = [*v.experts]
    for ref in v.refs[:20]:
        with contextlib.suppress(NotApplicable):
            episodes.append(v.plays(ref, lambda env, played: v.subject.sampled(env, played, rng)))
        with contextlib.suppress(NotApplicable):
            episodes.append(v.plays(ref, "", turns=20))
    for episode in episodes:
        result.tries += 1
        if not all(map(math.isfinite, episode.rewards)):
            result.add("finite", f"a reward is {episode.rewards[-1]} at {episode.ref}", replay=episode.replay)
        elif v.range.declared and not v.range.low - 1e-6 <= episode.total <= v.range.high + 1e-6:
            text = f"the return {episode.total:g} is outside of [{v.range.low:g}, {v.range.high:g}] ({v.range.source})"
            result.add("range", text, severity="medium", replay=episode.replay, total=episode.total)
    totals = [episode.total for episode in episodes if episode.valid]
    if totals:
        result.measured |= {"lowest": min(totals), "highest": max(totals)}


@check(
    "runtime.reward_attribution",
    SOUND,
    "Parts of the reward that are named add up to it.",
    number=33,
    severity="low",
    remedy="Report each part with its weight, so that their sum is the reward.",
)
def reward_attribution(v: Validation, result: CheckResult) -> None:
    """Add up what the info names as parts of the reward."""
    for episode in v.experts[:20]:
        for reward, info in zip(episode.rewards, episode.infos, strict=False):
            for key in ("reward_parts", "reward_components", "reward_breakdown"):
                parts = info.get(key)
                if isinstance(parts, dict) and parts and all(isinstance(each, (int, float)) for each in parts.values()):
                    result.tries += 1
                    if abs(sum(parts.values()) - reward) > 1e-6:
                        text = f"info[{key!r}] adds up to {sum(parts.values()):g}, the reward is {reward:g}"
                        result.add("sum", text, replay=episode.replay)
                        return
    if not result.tries:
        raise Skip("no parts of the reward are named")


@check(
    "runtime.seed_control",
    SOUND,
    "A seed is one task, and two seeds are two tasks.",
    number=36,
    remedy="Draw everything from the generator that reset seeds.",
)
def seed_control(v: Validation, result: CheckResult) -> None:
    """Reset six times by one seed, in this environment and in new ones, and by several seeds."""
    for ref in v.refs[:: max(1, v.count // 3)][:12]:
        v.at = ref
        firsts = [first_seen(v.subject.begin(ref, v.subject.env)) for _ in range(3)]
        for _ in range(3):
            with v.subject.new() as env:
                firsts.append(first_seen(v.subject.begin(ref, env)))
        result.tries += 6
        if len(set(firsts)) > 1:
            text = f"six resets with {ref} gave {len(set(firsts))} first observations"
            result.add("repeats", text, replay=ValidationEpisode(ref).replay, resets=6, distinct=len(set(firsts)))
            break
    firsts = [first_seen(v.opening(ref)) for ref in v.refs[: max(8, v.count)] if ref.level == 1]
    result.measured |= {"seeds": len(firsts), "distinct": len(set(firsts))}
    if len(firsts) >= 5 and len(set(firsts)) == 1 and v.subject.text_env is None:
        result.add("differs", f"{len(firsts)} seeds gave one first observation", severity="low")


@check(
    "runtime.episode_determinism",
    SOUND,
    "The same seed and actions give the same episode, in a new environment too.",
    number=37,
    remedy="Draw chance inside an episode from a generator that reset seeds, and keep it in the environment.",
)
def episode_determinism(v: Validation, result: CheckResult) -> None:
    """Play each action list three times: once here, twice in new environments."""
    rng = np.random.default_rng(2)
    twins = contextlib.ExitStack()
    with twins:
        envs = [v.subject.env, *(twins.enter_context(v.subject.new()) for _ in range(2))]
        for index, ref in enumerate(v.refs[:24]):
            first = v.plays(ref, lambda env, played: v.subject.sampled(env, played, rng), turns=30)
            lists = [first.actions, v.experts[index].actions if index < len(v.experts) else []]
            for actions in filter(None, lists):
                episodes = [v.plays(ref, actions, env=env) for env in envs]
                result.tries += 1
                if any(episode.transcript() != episodes[0].transcript() for episode in episodes[1:]):
                    kind = _difference(episodes)
                    result.add("repeats", f"{kind} of {ref} differs between playings", replay=episodes[0].replay)
                    return


@check(
    "semantic.replayability",
    SOUND,
    "A restored or forked episode goes on as the first one did.",
    number=44,
    remedy="Put everything that can change into the state that is saved.",
)
def replayability(v: Validation, result: CheckResult) -> None:
    """Save each expert's episode at its middle, play it to its end, restore, and play the end again."""
    env = v.subject.env.unwrapped
    if not (hasattr(env, "get_state") and hasattr(env, "set_state")):
        raise Skip("it offers no get_state and set_state")
    for episode in v.experts[:12]:
        if not episode.actions:
            continue
        middle = len(episode.actions) // 2
        v.at = episode.ref
        played = v.plays(episode.ref, episode.actions[:middle])
        state = env.get_state()
        ends = []
        for _ in range(2):
            env.set_state(state)
            going = ValidationEpisode(episode.ref, played.first_info, observations=[""])
            for action in episode.actions[middle:]:
                v.subject.step(env, going, action)
                if going.ended or going.error:
                    break
            ends.append(going)
        result.tries += 1
        first, second = (each.transcript()[0] + each.rewards for each in ends)
        expected = [*episode.observations[middle + 1 :], *episode.rewards[middle:]]
        if first != second or first[1:] != expected:
            result.add("restore", f"{episode.ref} goes on differently after set_state", replay=episode.replay)
            return
    if not result.tries:
        raise Skip("there is no expert's episode to restore")


@check(
    "semantic.oracle_max",
    SOUND,
    "The expert reaches the maximum on every task.",
    number=25,
    remedy="Play the expert's actions by hand where it fails, and mend the task, the expert or the grader.",
)
def oracle_max(v: Validation, result: CheckResult) -> None:
    """Play the expert on every task; without one, search, and say so where nothing reaches the maximum."""
    if v.subject.expert(v.subject.env) is None or not v.experts:
        search_solution(v, result)
        return
    result.tries = len(v.experts)
    failed = [episode for episode in v.experts if not v.full(episode)]
    if not failed and not v.has_luck:
        failed = _failed_on_more(v, result)
    totals = [episode.total for episode in v.experts]
    result.measured |= {
        "solved": result.tries - len(failed),
        "mean": sum(totals) / len(totals),
        "maximum": v.range.high,
    }
    if v.has_luck and len(failed) < result.tries:
        return
    for episode in failed[:5]:
        verdict = episode.verdict
        why = f"{verdict.status}: {verdict.reason}" if verdict else episode.error or f"return {episode.total:g}"
        text = f"the expert is paid {episode.total:g} of {v.range.high:g} ({v.range.source}) at {episode.ref}: {why}"
        result.add("expert", text, replay=episode.replay, total=episode.total, maximum=v.range.high)
    if failed:
        result.measured["failed"] = len(failed)


def _failed_on_more(v: Validation, result: CheckResult) -> list[ValidationEpisode]:
    """Episodes in which the expert fails on tasks that no other check plays it on: what is wrong may be rare."""
    policy = v.subject.expert(v.subject.env)
    assert policy is not None
    failed: list[ValidationEpisode] = []
    for ref in v.many_refs:
        if ref not in v.refs and len(failed) < 5:
            v.at = ref
            played = v.subject.play(ref, policy, turns=EXPERT_TURNS)
            result.tries += 1
            failed += [] if v.full(played) else [played]
    return failed


@check(
    "semantic.floor_gap",
    SOUND,
    "Who does no work is paid nothing; a margin lies between the floor and the maximum.",
    number=25,
    remedy="Look for a condition that holds before any work: an empty comparison, a default, a test that was there.",
)
def floor_gap(v: Validation, result: CheckResult) -> None:
    """Measure the returns of empty, random, first and idle play."""
    rng = np.random.default_rng(3)
    refs = v.refs[:: max(1, len(v.refs) // 12)][:16]
    policies: dict[str, Any] = {
        "random": lambda ref: lambda env, played: v.subject.sampled(env, played, rng),
        "empty": lambda ref: "",
        "echo of the prompt": lambda ref: lambda env, played: played.observations[-1],
        **{f"idle: {word}": (lambda ref, word=word: word) for word in dict.fromkeys([*IDLE, *enders(v)])},
    }
    if v.subject.discrete:
        space = v.subject.space
        assert isinstance(space, gym.spaces.Discrete)
        policies |= {
            f"always {n}": (lambda ref, n=n: str(n)) for n in range(space.start, space.start + min(space.n, 8))
        }
    for name, policy in policies.items():
        episodes = []
        for ref in refs if not name.startswith("idle") else refs[:6]:
            with contextlib.suppress(NotApplicable):
                episodes.append(v.plays(ref, policy(ref), turns=60))
        if episodes:
            result.tries += len(episodes)
            _judge_floor(v, result, name, episodes)
    _stopped_at_once(v, result)


def _stopped_at_once(v: Validation, result: CheckResult) -> None:
    """Hand in or do nothing at once: paid the maximum on some tasks, their goal held before any work was done."""
    if v.subject.discrete or not v.subject.texts or v.has_luck:
        return
    policy = v.subject.expert(v.subject.env) if v.experts else None
    for text in (*enders(v), "I am waiting."):
        hits, refs = [], v.many_refs
        for ref in refs:
            with contextlib.suppress(NotApplicable):
                played = v.plays(ref, text, turns=2, until=v.full)
                # Where the expert stops at once, too, there is nothing to do.
                if v.full(played) and (policy is None or len(v.subject.play(ref, policy, turns=2).actions) > 1):
                    hits.append(played)
        result.tries += len(refs)
        shown = next((each for each in hits if v.shown(each, v.full)), None) if len(hits) >= 2 else None
        if shown and len(hits) >= 0.05 * len(refs):
            sentence = f"{text[:60]!r} at once is paid {shown.total:g} at {shown.ref}"
            sentence += f", and so on {len(hits)} of {len(refs)} tasks"
            result.add("stop at once", sentence, replay=shown.replay, paid=len(hits), tasks=len(refs))
            return


def _judge_floor(v: Validation, result: CheckResult, name: str, episodes: list[ValidationEpisode]) -> None:
    mean = sum(episode.total for episode in episodes) / len(episodes)
    full = [episode for episode in episodes if v.full(episode)]
    echoes = name == "echo of the prompt"  # which may hold moves
    paid = [episode for episode in episodes if v.paid(episode) and not (echoes and v.by_moves(episode))]
    result.measured[name] = round(mean, 6)
    works = name == "random" or name.startswith("always")
    share = len(full) / len(episodes)
    # A word that a game takes for a move is paid as random moves are.
    by_chance = result.measured.get("random", 0.0)
    as_random = (
        v.has_luck
        or mean <= v.wrong_pay
        or mean <= by_chance + 0.1 * v.width
        or (by_chance > 0.1 * v.width and share < 0.5)
    )
    a_move = name != "empty" and not works and as_random
    if works and len(episodes) >= 6 and share >= 0.9:
        shown = next((each for each in full if v.shown(each, v.full)), None)
        if shown:
            text = f"{name} play reaches the maximum in {len(full)} of {len(episodes)} episodes"
            result.add(name, text, replay=shown.replay, share=share)
    elif works and share > 0.5 + 1 / math.sqrt(len(episodes)):  # two sigma more than an even game, by luck
        result.add(name, f"{name} play reaches the maximum in {share:.0%} of episodes", severity="low", share=share)
    elif not works and not a_move and len(paid) >= max(2, 0.5 * len(episodes)) and not v.pays_each_turn:
        shown = next((each for each in paid if v.shown(each, v.paid)), None)
        if shown:
            what = "the prompt, said again," if echoes else repr(shown.actions[-1])[:60]
            text = f"{what} is paid {shown.total:g} of {v.range.high:g} at {shown.ref}"
            text += f", and something on {len(paid)} of {len(episodes)} tasks"
            result.add(name, text, replay=shown.replay, mean=mean, paid=len(paid), tasks=len(episodes))


@check(
    "sound.faults",
    SOUND,
    "No reply makes it raise, or ends an episode with a fault of the environment's.",
    remedy="Read what a policy may write with care, and answer what cannot be read with a message or a 0.",
)
def faults(v: Validation, result: CheckResult) -> None:
    """Write odd replies and broken solutions; who can end an episode without a 0 erases its failures from the mean."""
    refs = v.refs[:: max(1, len(v.refs) // 3)][:3]
    gold = [*v.experts[:1]]
    texts = dict(ODD)
    for episode in gold:
        last = episode.actions[-1] if episode.actions else ""
        texts |= {"half of a solution": last[: len(last) // 2], "a solution twice": f"{last}\n{last}"}
        words = last.split()
        if len(words) > 1:
            texts |= {"first word of a solution": words[0], "a solution without its last word": " ".join(words[:-1])}
            texts |= {"a word in the place of an argument": " ".join([*words[:-1], "zzz"])}
        texts["a letter for each digit"] = re.sub(r"\d", "x", last)
        for action in dict.fromkeys(episode.actions[:: max(1, len(episode.actions) - 1)]):
            texts |= {f"out of range: {text}": text for text in out_of_range(action)}
            texts |= {f"of another form: {text}": text for text in of_another_form(action)}
    for call in templates(v)[:4]:
        texts |= {f"of another form: {text}": text for text in of_another_form(json.dumps(call))}
    for name, text in texts.items():
        for ref in refs if ":" not in name else refs[:1]:
            try:
                episode = v.plays(ref, text, turns=3, until=lambda played: not played.valid or played.provoked)
            except NotApplicable:
                break
            result.tries += 1
            if episode.valid and not episode.provoked:
                continue
            if v.shown(episode, lambda played: not played.valid or played.provoked):
                verdict = episode.verdict
                why = episode.error or (f"{verdict.status}: {verdict.reason}" if verdict else "")
                text_shown = repr(episode.actions[-1])[:60]
                result.add(
                    name.partition(":")[0],
                    f"{text_shown} at {ref} ends the episode with a fault: {why}",
                    replay=episode.replay,
                )
            break
        if len(result.findings) >= 6:
            return


@check(
    "sound.fault_is_no_zero",
    SOUND,
    "A fault of the environment is not scored as a wrong answer.",
    remedy="Let what is missing raise, or report it apart; never catch it and return 0.",
)
def fault_is_no_zero(v: Validation, result: CheckResult) -> None:
    """Read what failing episodes of the expert say, and take modules and programs away while it plays."""
    from rlvr.envs.validation.taken_away import modules_missing, own_modules

    for episode in v.experts:
        result.tries += 1
        if v.full(episode) or not episode.valid:
            continue
        written = "\n".join([episode.observations[-1], *(str(value)[:2_000] for value in episode.last.values())])
        if match := MISSING.search(written):
            text = f"the expert's solution is scored {episode.total:g} where {match[0]!r} is reported, at {episode.ref}"
            result.add("reported", text, replay=episode.replay)
            return
    modules = own_modules(v.subject.env)
    for episode in v.solved[:3] if modules else ():
        v.at = episode.ref
        try:
            with modules_missing(modules) as taken:
                broken = v.subject.fresh(episode.ref, in_order(episode.actions))
        except ApiFault:
            continue  # it raises, as it should
        result.tries += 1
        if taken and broken.valid and not v.full(broken):
            again = v.subject.fresh(episode.ref, in_order(episode.actions))
            if v.full(again):
                names = ", ".join(sorted(taken)[:3])
                text = f"without {names} a solution is scored {broken.total:g}, as a wrong one, at {episode.ref}"
                result.add("taken away", text, replay=episode.replay, without=names)
                return


@check(
    "sound.ends",
    SOUND,
    "Every episode ends.",
    severity="medium",
    remedy="Limit the turns, as by Gymnasium's TimeLimit; let step raise after the end until reset is called.",
)
def ends(v: Validation, result: CheckResult) -> None:
    """Idle for a thousand turns, and act once more after an end."""
    ref = v.refs[0]
    idle = idle_text(v)
    turns = _turns_to_end(v)
    episode = v.plays(ref, idle, turns=turns)
    result.tries += 1
    result.measured["turns"] = len(episode.actions)
    if not episode.ended and not episode.error:
        result.add("ends", f"{turns} turns of {idle[:30]!r} at {ref} do not end the episode", replay=None, turns=turns)
    for episode in v.solved[:3]:
        with v.subject.new() as env:
            played = v.subject.play(episode.ref, in_order(episode.actions), env=env)
            before = played.total
            if not played.ended:
                continue
            result.tries += 1
            try:
                v.subject.step(env, played, episode.actions[-1])
            except ApiFault:
                continue
            if not played.error and played.total > before + 1e-9:
                text = f"after its end, {episode.ref} pays {played.total - before:g} more for the last action again"
                result.add("after the end", text, severity="note", replay=played.replay)
                return


def _turns_to_end(v: Validation) -> int:
    """After how many turns an episode should have ended: more than its own limit, where it names one."""
    env = v.subject.env
    limits = [getattr(getattr(env, "spec", None), "max_episode_steps", None)]
    limits += [getattr(env.unwrapped, name, None) for name in ("max_episode_steps", "max_steps", "max_turns")]
    named = [limit for limit in limits if isinstance(limit, int) and 0 < limit <= LONGEST]
    return max(LONG, *(limit + 1 for limit in named), 0)


@check(
    "sound.splits",
    SOUND,
    "No two splits share a task.",
    remedy="Decide a task's split by a hash of its content.",
)
def splits(v: Validation, result: CheckResult) -> None:
    """Compare the tasks of splits: by content where it is known, else by the first observation."""
    env = v.subject.text_env
    if env is not None:
        _own_splits(v, result, env)
        return
    if v.subject.make_split is None:
        raise Skip("it has no splits")
    episodes: dict[str, list[ValidationEpisode]] = {}
    for split in ("train", "test"):
        made = v.subject.make_split(split)
        policy = v.subject.expert(made)
        try:
            episodes[split] = [
                v.subject.play(TaskRef(v.seed + i), policy or in_order(()), env=made, turns=1) for i in range(DRAWN)
            ]
        finally:
            made.close()
    train, test = ([episode.observations[0] for episode in episodes[split]] for split in ("train", "test"))
    result.tries = len(test)
    shared = [text for text in set(test) if text in set(train)]
    if shared:
        severity: Severity = "high" if len(shared) >= 0.02 * len(set(test)) else "medium"
        text = f"{len(shared)} of {len(set(test))} test tasks are train tasks: {shared[0][:80]!r}"
        result.add("exact", text, severity=severity, shared=len(shared))
    _near(v, result, episodes["train"], episodes["test"])


def _own_splits(v: Validation, result: CheckResult, env: TextEnv) -> None:
    if env.size is not None:
        raise Skip("the rows of a table are split by whoever made it")
    near: dict[str, list[ValidationEpisode]] = {"train": [], "test": []}
    policy = v.subject.expert(v.subject.env) if v.experts else None
    for level in range(1, v.subject.levels + 1):
        split_of: dict[str, str] = {}
        until = now() + DRAWING / v.subject.levels
        for index in range(max(v.count, DRAWN // v.subject.levels)):
            if index >= v.count and now() > until:
                break
            for split in env.task.splits:
                ref = TaskRef(v.seed, {"level": level, "index": index, "split": split})
                episode = v.plays(ref, ())
                result.tries += 1
                content = v.subject.env.unwrapped.content  # type: ignore[attr-defined]
                if policy and split in near:
                    near[split].append(episode)
                    answer = policy(v.subject.env, episode)  # which is not played: two may be alike, and that is all
                    episode.actions += [] if answer is None else [answer]
                if split_of.setdefault(content, split) != split:
                    text = f"level {level}: {content[:80]!r} is in {split_of[content]} and in {split}"
                    result.add("exact", text, replay=ValidationEpisode(ref).replay)
                    return
    if near["train"] and near["test"]:
        _near(v, result, near["train"], near["test"])


def _near(v: Validation, result: CheckResult, train: list[ValidationEpisode], test: list[ValidationEpisode]) -> None:
    """High where the answers are the same, too: what differs is told apart by nothing that matters."""
    shared = overlap([each.observations[0] for each in train], [each.observations[0] for each in test])
    result.measured |= {
        "equal but for names and order": len(shared.same),
        "nearly all n-grams shared": len(shared.near),
    }
    same = [(test[mine], train[theirs]) for mine, theirs in shared.same]
    if len(same) < max(4, 0.1 * shared.tried):
        return
    alike = sum(mine.actions == theirs.actions != [] for mine, theirs in same) / len(same)
    text = f"{len(same)} of {shared.tried} test tasks are train tasks but for names and order, as {same[0][0].ref}"
    answers = {tuple(mine.actions) for mine, _ in same}
    severity: Severity = "high" if v.single_turn and alike >= 0.8 and len(answers) >= 4 else "medium"
    if severity == "high" or (v.subject.text_env is None and len(same) >= 0.2 * shared.tried):
        result.add("near", text, severity=severity, share=len(same) / shared.tried, alike=alike)


def first_seen(episode: ValidationEpisode) -> tuple[str, bytes]:
    """The first observation: its text and images."""
    return episode.observations[0], episode.images[0]


def idle_text(v: Validation) -> str:
    """Text that does nothing, or the first action of a space of numbers."""
    space = v.subject.space
    if isinstance(space, gym.spaces.Discrete):
        return str(space.start)
    if v.subject.texts:
        return "I am waiting."
    episode = v.subject.begin(v.refs[0], v.subject.env)
    return v.subject.sampled(v.subject.env, episode, np.random.default_rng(0))


def _difference(episodes: list[ValidationEpisode]) -> str:
    kinds = ("an observation", "an image", "a reward", "the end", "the truncation", "the error")
    for kind, values in zip(kinds, zip(*(each.transcript() for each in episodes), strict=True), strict=True):
        if any(value != values[0] for value in values[1:]):
            return kind
    return "the episode"
