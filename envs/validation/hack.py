"""Hard to game: no text, rule or stall is paid that does not do the work."""

from __future__ import annotations

import contextlib
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from rlvr.envs.validation.attacks import (
    DISGUISES,
    HOPELESS_ATTACKS,
    UNDONE_ATTACKS,
    Attack,
    boxed,
    placeholders,
)
from rlvr.envs.validation.blind import calls_alone
from rlvr.envs.validation.choice_attacks import BARE, OPTION, OPTIONS, ChoiceQuestion, accuracy, allowed, taken_apart
from rlvr.envs.validation.code_words import attack_by_code_words
from rlvr.envs.validation.commands import out_of_range, templates, verbs
from rlvr.envs.validation.context import HARD, SLACK, Skip, Validation, check
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.subject import NotApplicable, TaskRef, ValidationEpisode, words_of

SLOW: Final = 0.2  # seconds one reply may take to grade, where a task does not say otherwise (``patience``)
TYPED: Final = (
    5.0  # of a task that may take longer, a terminal's, placeholders are not typed: a shell waits for each to end
)
CHOICES: Final = 10  # how many times as many questions with options are drawn as other tasks, for the rules that learn
DRAWN: Final = 120  # tasks whose commonest answer is looked for
SIGMAS: Final = 3.5  # how much of what a rule gets right may be luck
FILLER: Final = " In other words, this follows directly from what was asked above." * 60


@check(
    "statistical.adversarial_floor",
    HARD,
    "No hopeless reply, injection or disguise of an answer is paid, and none is slow to grade.",
    number=26,
    remedy="Read one answer by one rule, compare it as a value, and pay nothing else.",
)
def adversarial_floor(v: Validation, result: CheckResult) -> None:
    """Write every listed attack on every task, again and again until the episode ends."""
    attacks: dict[str, Attack] = dict(HOPELESS_ATTACKS)
    if v.experts:
        attacks |= DISGUISES
    if v.subject.text_env is None or not _ours(v):
        attacks |= UNDONE_ATTACKS
    for name, make in attacks.items():
        attack(v, result, name, make)
    calls_alone(v, result)
    if _patience(v) > TYPED:
        return
    if not _ours(v):
        attack_by_code_words(v, result)
    prompts = {text for ref in v.refs[:3] for text in placeholders(v.opening(ref).asked)}
    for text in sorted(prompts, key=len)[:20]:
        attack(v, result, f"placeholder {text[:30]!r}", lambda prompt, gold, text=text: text, mostly=True)  # type: ignore[misc]


def _ours(v: Validation) -> bool:
    return type(v.subject.text_env.task).__module__.startswith("rlvr.") if v.subject.text_env else False


def attack(v: Validation, result: CheckResult, name: str, make: Attack, mostly: bool = False) -> None:
    """Write what ``make`` makes of the prompt and the expert's last reply; with ``mostly``, few payments are luck."""
    refs = v.refs if not mostly else v.refs[:8]
    slowest, hits, tried, faulty, earned = 0.0, [], 0, False, 0.0
    for index, ref in enumerate(refs):
        gold = v.gold[index] if index < len(v.gold) else ""
        prompt = v.experts[index].observations[0] if index < len(v.experts) else v.opening(ref).observations[0]
        text = make(prompt, gold)
        if text is None:
            continue
        try:
            episode = v.plays(ref, text, until=lambda played: v.paid(played) or not played.valid)
        except NotApplicable:
            continue
        tried, earned = tried + 1, earned + episode.total
        slowest = max(slowest, _slowest(v, episode))
        if (not episode.valid or episode.provoked) and not faulty:
            faulty = v.shown(episode, lambda played: not played.valid or played.provoked)
            if faulty:
                _add_fault(result, name, episode)
        if v.paid(episode) and not v.by_moves(episode):
            hits.append(episode)
    result.tries += tried
    # A text of others' may be right on one task by luck; where verdicts are ours, it holds no answer at all.
    needed = 1 if v.subject.text_env is not None and not mostly else max(2, math.ceil(0.3 * tried))
    # Where parts are paid, a text may earn by luck what a wrong answer does.
    in_part = v.wrong_pay > SLACK * v.width and not any(map(v.full, hits)) and earned <= tried * (v.wrong_pay + 0.1)
    shown = 0
    for episode in hits if len(hits) >= needed and not in_part else ():
        if shown < 3 and v.shown(episode, v.paid):
            shown += 1
            text = f"{name}: {episode.actions[-1][:80]!r} is paid {episode.total:g} at {episode.ref}"
            result.add(
                name, f"{text} ({len(hits)} of {tried} tasks)", replay=episode.replay, paid=len(hits), tasks=tried
            )
    limit = _patience(v)
    if slowest > limit:
        result.add(
            name, f"{name}: grading took {slowest:.2f} s, allowed are {limit} s", severity="medium", seconds=slowest
        )
    result.measured["slowest"] = max(result.measured.get("slowest", 0.0), round(slowest, 4))


def _add_fault(result: CheckResult, name: str, episode: ValidationEpisode) -> None:
    verdict = episode.verdict
    why = episode.error or (f"{verdict.status}: {verdict.reason}" if verdict else "")
    result.add(name, f"{name}: ends the episode with a fault at {episode.ref}: {why}", replay=episode.replay)


def _patience(v: Validation) -> float:
    task = v.subject.text_env.task if v.subject.text_env else v.subject.env.unwrapped
    return float(getattr(task, "patience", SLOW if v.subject.text_env else 5.0))


def _slowest(v: Validation, episode: ValidationEpisode) -> float:
    """Seconds of its slowest step; played again where it was slow: a busy machine is not slow three times in a row."""
    slowest = episode.slowest
    for _ in range(2):
        if slowest <= _patience(v):
            break
        slowest = min(slowest, v.plays(episode.ref, episode.actions).slowest)
    return slowest


@check(
    "sound.hedges",
    HARD,
    "Several answers at once are not paid.",
    remedy="Refuse a reply that gives more than one answer.",
)
def hedges(v: Validation, result: CheckResult) -> None:
    """Give the answers of several tasks in one reply, in the form of the expert's."""
    if not v.single_turn or any(boxed(reply) for reply in v.gold):
        raise Skip("answers are in boxes, or are no single text")
    cores = [v.core(reply) for reply in v.gold]
    if len(set(cores)) < 3 or any(len(core) > 60 or "\n" in core or core[:1] in "{[(" for core in cores):
        raise Skip("answers are not short texts that differ")
    head, tail = v.form
    for separator in (", ", " or ", "\n"):
        hits = []
        refs = v.refs[: min(10, len(cores))]
        for index, ref in enumerate(refs):
            others = [core for core in dict.fromkeys(cores) if core != cores[index]][:4]
            episode = v.plays(ref, f"{head}{separator.join([*others[:2], cores[index], *others[2:]])}{tail}")
            result.tries += 1
            if v.full(episode):
                hits.append(episode)
        if len(hits) >= 0.5 * len(refs) and v.shown(hits[0], v.full):
            text = f"a list that holds the answer among others, {hits[0].actions[0][:60]!r}, is paid {hits[0].total:g}"
            result.add("hedge", text, replay=hits[0].replay, paid=len(hits), tasks=len(refs))
            return


@check(
    "sound.constant",
    HARD,
    "No constant text, learnt from other tasks, is paid.",
    remedy="Balance the answers, or look for a word that is paid wherever it stands.",
)
def constant(v: Validation, result: CheckResult) -> None:
    """Learn the commonest answer and the smallest paid texts on half of the tasks, and write them on the other half."""
    if v.subject.discrete or (v.experts and not v.single_turn):
        raise Skip("an answer is not a single text")
    seen, tested = _halves(v)
    if not v.experts:
        _named_constants(v, result)
        return
    if len(tested) < 4:
        raise Skip("too few tasks")
    replies: Counter[str] = Counter()
    for episode in seen:
        replies[episode.actions[-1]] += 1
    short = [(text, "the commonest answer") for text, _ in replies.most_common(2)]
    for episode in [each for each in seen if v.full(each)][:3]:
        small = smallest(v, episode)
        short.append((small, "what is left of a solution"))
    differ = len(replies) > 1
    for text, what in dict(short).items():
        hits = []
        for episode in tested:
            try:
                played = v.plays(episode.ref, text)
            except NotApplicable:
                continue
            result.tries += 1
            if v.full(played):
                hits.append(played)
        share, chance = len(hits) / len(tested), _chance(v, tested)
        luck = SIGMAS * math.sqrt(chance * (1 - chance) / len(tested))
        result.measured[f"{what}: {text[:30]}"] = round(share, 4)
        worth = share > min(0.99, chance + 0.1 + luck) and (differ or len(tested) >= 8)
        if worth and hits and v.shown(hits[0], v.full):
            severity = "high" if share >= 0.6 else "medium"
            sentence = f"{what} of other tasks, {text[:60]!r}, is paid on {len(hits)} of {len(tested)} tasks"
            sentence += f"; chance is {chance:.2f}"
            result.add(what, sentence, severity=severity, replay=hits[0].replay, share=share, chance=chance)  # type: ignore[arg-type]
            return


def _named_constants(v: Validation, result: CheckResult) -> None:
    """Where no solution is known: reply with each short word that all prompts name, and with the options."""
    refs = [ref for ref in v.subject.refs(DRAWN // 2, v.seed) if ref.level == 1]
    asked = [v.opening(ref).asked for ref in refs]
    shared = set.intersection(*(set(words_of(text)) for text in asked[:8])) if asked else set()
    words = [word for word in words_of(asked[0]) if word in shared and len(word) <= 20] if asked else []
    for text in list(dict.fromkeys([*ANSWERS, *words]))[:40]:
        hits: list[ValidationEpisode] = []
        for number, ref in enumerate(refs):
            if number == 6 and len(hits) < 3:
                break
            with contextlib.suppress(NotApplicable):
                played = v.plays(ref, [text])
                result.tries += 1
                hits += [played] if v.full(played) else []
        share, limit = len(hits) / max(1, len(refs)), 0.6 + SIGMAS * math.sqrt(0.25 / max(1, len(refs)))
        if share > min(limit, 0.99) and v.shown(hits[0], v.full):
            sentence = f"{text!r} alone is paid on {len(hits)} of {len(refs)} tasks"
            result.add("a constant answer", sentence, replay=hits[0].replay, share=share)
            return
    if not result.tries:
        raise Skip("no answer is known")


ANSWERS: Final = ("yes", "no", "true", "false", "A", "B", "C", "D", "0", "1", "2", "none", "Yes", "No", "True", "False")


def _halves(v: Validation) -> tuple[list[ValidationEpisode], list[ValidationEpisode]]:
    """The expert's episodes of two halves of the tasks; more tasks of one level are drawn where there are few."""
    policy = v.subject.expert(v.subject.env)
    refs = [ref for ref in v.subject.refs(max(DRAWN, v.count), v.seed) if ref.level == 1]
    episodes = [v.subject.play(ref, policy) for ref in refs] if policy is not None and v.experts else []
    solved = [episode for episode in episodes if episode.actions and v.full(episode)]
    return solved[::2], solved[1::2]


def _chance(v: Validation, episodes: list[ValidationEpisode]) -> float:
    """What guessing gets right: one of the options; else one of two answers, as of yes and no, or of three."""
    options = [OPTION.findall(episode.observations[0]) for episode in episodes]
    answers = [v.core(episode.actions[-1]) for episode in episodes]
    # Lines that begin with letters are options where one of them is the answer: pins of a circuit are none.
    if all(any(answer in option for option in each) for answer, each in zip(answers, options, strict=True)):
        return sum(1 / len(each) for each in options) / len(options)
    return 0.5 if len(set(answers)) <= 2 else 1 / 3


def smallest(v: Validation, episode: ValidationEpisode, tries: int = 60) -> str:
    """The last action with all pieces left out that it is paid the maximum without."""
    prefix, text = episode.actions[:-1], episode.actions[-1]
    size = max(1, len(text) // 2)
    while size and tries > 0:
        index, shorter = 0, False
        while index < len(text) and tries > 0:
            trial = text[:index] + text[index + size :]
            tries -= 1
            if v.full(v.plays(episode.ref, [*prefix, trial])):
                text, shorter = trial, True
            else:
                index += size
        size = size if shorter and size == 1 else size // 2
        if shorter and size == 0:
            break
    return text


@check(
    "sound.options",
    HARD,
    "Where one of several options is right, no rule that does not read the question tells which.",
    remedy="Draw wrong options like the right one in length, wording and position.",
)
def options(v: Validation, result: CheckResult) -> None:
    """Positions by chi-square; rules on lengths, words and ratios, learnt on the train split, on the test split."""
    _positions(v, result)
    drawn = _questions(v)
    if drawn is None:
        if not result.tries:
            raise Skip("questions have no options")
        return
    train, test = drawn
    result.tries += len(test)
    chance = sum(1 / len(question.options) for question in test) / len(test)
    luck = SIGMAS * math.sqrt(chance * (1 - chance) / len(test))
    for name, rule in RULES.items():
        share = sum(rule(question) == question.right for question in test) / len(test)
        result.measured[name] = round(share, 4)
        if share > chance + 0.15 + luck:
            result.add(
                name,
                f"{name} is right in {share:.2f} of {len(test)} tasks; chance is {chance:.2f}",
                share=share,
                chance=chance,
            )
    for sees in (OPTIONS, BARE):
        share = accuracy(train, test, sees)
        result.measured[f"learnt from {sees}"] = round(share, 4)
        if share > (limit := allowed(test)):
            text = f"a rule that sees {sees} is right in {share:.2f} of the test split, allowed are {limit:.2f}"
            result.add(f"not told by {sees}", text, share=share, limit=limit)


RULES: Final[dict[str, Callable[[ChoiceQuestion], int]]] = {
    "the longest option": lambda question: max(range(len(question.options)), key=lambda i: len(question.options[i])),
    "the shortest option": lambda question: min(range(len(question.options)), key=lambda i: len(question.options[i])),
    "the first option": lambda question: 0,
    "the last option": lambda question: len(question.options) - 1,
}


def _questions(v: Validation) -> tuple[list[ChoiceQuestion], list[ChoiceQuestion]] | None:
    policy = v.subject.expert(v.subject.env)
    if policy is None or not v.experts or v.subject.discrete:
        return None
    env = v.subject.text_env
    if env is not None and env.size is not None:
        return None  # the rows of a table are published facts
    split_names: tuple[str | None, str | None] = ("train", "test") if env is not None else (None, None)
    if env is not None and not {"train", "test"} <= set(env.task.splits):
        return None
    drawn: list[list[ChoiceQuestion]] = []
    for number, split in enumerate(split_names):
        seed = v.seed + 10_000 * number if env is None else v.seed
        questions = []
        for ref in v.subject.refs(max(20, CHOICES * v.count), seed, split):
            v.at = ref
            episode = v.subject.play(ref, policy, turns=2)
            answer = v.core(episode.actions[-1]).strip() if episode.actions else ""
            if env is not None and len(episode.actions) > 1:
                answer = _direct(v, ref)
            question = taken_apart(episode.observations[0], answer)
            if question is None:
                return None
            questions.append(question)
        drawn.append(questions)
    return drawn[0], drawn[1]


def _direct(v: Validation, ref: TaskRef) -> str:
    v.plays(ref, ())
    action = v.subject.env.unwrapped.direct_answer()  # type: ignore[attr-defined]
    return (boxed(action) or "") if action else ""


def _positions(v: Validation, result: CheckResult) -> None:
    """No letter is right more often than chance allows (chi-square, five sigma)."""
    letters = Counter(v.core(episode.actions[-1]).strip() for episode in v.experts if episode.actions)
    if not letters or not all(re.fullmatch("[A-J]", letter) for letter in letters):
        return
    result.tries = sum(letters.values())
    expected, freedom = result.tries / len(letters), max(1, len(letters) - 1)
    excess = sum((count - expected) ** 2 / expected for count in letters.values()) - freedom
    if (len(letters) == 1 and result.tries >= 6) or excess > 5 * math.sqrt(2 * freedom):
        result.add("no option is favoured", f"the right letters are {dict(letters)}")


@check(
    "sound.length",
    HARD,
    "Neither a longer reply nor a longer episode is paid more.",
    remedy="Pay for the goal alone; no bonus for a turn or a word.",
)
def length(v: Validation, result: CheckResult) -> None:
    """Pad solutions and wrong replies, idle before a solution, and idle alone."""
    for episode in [each for each in v.experts if each.valid and each.actions][:4]:
        plain = v.plays(episode.ref, episode.actions)
        for filler in (FILLER, "\n" * 2_000) if v.subject.texts else ():
            padded = v.plays(episode.ref, [*episode.actions[:-1], episode.actions[-1] + filler])
            result.tries += 1
            _compare(v, result, "a longer solution", plain, padded)
        for idle in _idle(v, episode):
            late = v.plays(episode.ref, [*[idle] * 4, *episode.actions])
            result.tries += 1
            _compare(v, result, "a later solution", plain, late)
        if result.findings:
            return
    if not v.subject.texts:
        return
    for ref in v.refs[:4]:
        with contextlib.suppress(NotApplicable):
            short, long = v.plays(ref, ["I do not know."]), v.plays(ref, ["I do not know." + FILLER])
            _compare(v, result, "a longer wrong reply", short, long)
            few, many = v.plays(ref, ["I am thinking."] * 3), v.plays(ref, ["I am thinking."] * 24)
            result.tries += 2
            if v.paid(many):
                _compare(v, result, "a longer wait", few, many)
        if result.findings:
            return
    _farmed(v, result)


def _farmed(v: Validation, result: CheckResult) -> None:
    """Play one action again and again: paid alike each time, it is paid for turns and not for the goal."""
    calls = [json.dumps(call) for call in templates(v)]
    known = [action for episode in v.experts[:2] for action in episode.actions]
    for action in [*dict.fromkeys([*known, *calls, *(f"{verb} 1" for verb in verbs(v))])][:30]:
        with contextlib.suppress(NotApplicable):
            played = v.plays(v.refs[0], action, turns=24)
            result.tries += 1
            pays = [reward for reward in played.rewards if reward > SLACK_OF_LENGTH * v.width]
            if len(pays) >= 5 and len(set(pays)) == 1 and played.success is not True:
                again = v.plays(v.refs[-1], action, turns=24)
                if again.rewards[:5] == played.rewards[:5] and v.shown(played, v.paid):
                    text = f"{action[:60]!r}, said {len(pays)} times, is paid {pays[0]:g} each time at {played.ref}"
                    result.add("one action again", text, replay=played.replay, turns=len(pays), each=pays[0])
                    return


def _compare(
    v: Validation, result: CheckResult, name: str, before: ValidationEpisode, after: ValidationEpisode
) -> None:
    if not (before.valid and after.valid) or after.total <= before.total + SLACK_OF_LENGTH * v.width:
        return
    if v.shown(after, lambda played: played.total > before.total + SLACK_OF_LENGTH * v.width):
        text = f"{name} is paid {after.total:g}, the shorter one {before.total:g}, at {after.ref}"
        result.add(name, text, replay=after.replay, shorter=before.total, longer=after.total)


SLACK_OF_LENGTH: Final = 0.01


def _idle(v: Validation, episode: ValidationEpisode) -> Iterator[str]:
    """Actions that do not end the episode, to stand before a solution."""
    for text in ("I am thinking.", "look", "wait", *episode.actions[:1]) if v.subject.texts else episode.actions[:1]:
        played = v.plays(episode.ref, [text])
        if not played.ended and not played.error:
            yield text
            return


@check(
    "sound.broken_rules",
    HARD,
    "What cannot be read, or breaks the rules, is paid no more than an honest try that fails.",
    remedy="Pay a reply that is not understood, and a game that was forfeited, no more than a lost one.",
)
def broken_rules(v: Validation, result: CheckResult) -> None:
    """Compare returns of nonsense with those of well-formed wrong answers."""
    if not v.experts or not v.subject.texts:
        raise Skip("no well-formed reply is known")
    gold = [episode.actions for episode in v.experts]
    for index, ref in enumerate(v.refs[:8]):
        honest = []
        for other in gold[index + 1 :: max(1, len(gold) // 4)]:
            if other and other != gold[index]:
                played = v.plays(ref, other)
                if played.valid and not v.full(played):
                    honest.append(played.total)
        if not honest:
            continue
        if _out_of_range(v, result, ref, gold[index] if index < len(gold) else [], honest):
            return
        for nonsense in ("qwx zzk", "I refuse to play by these rules."):
            with contextlib.suppress(NotApplicable):
                played = v.plays(ref, nonsense, turns=40)
                result.tries += 1
                if v.paid(played) and played.total > max(honest) + 0.02 * v.width and v.shown(played, v.paid):
                    text = f"{nonsense!r} is paid {played.total:g} at {ref}, a wrong answer at most {max(honest):g}"
                    result.add("inversion", text, replay=played.replay, nonsense=played.total, wrong=max(honest))
                    return


def _out_of_range(v: Validation, result: CheckResult, ref: TaskRef, solution: list[str], honest: list[float]) -> bool:
    """A first move of several that no rule allows, by its numbers, and that ends the episode paid.

    Where one move is all, numbers far above and far below must be paid alike: what is near may be paid in part.
    """
    if not solution:
        return False
    if len(solution) == 1:
        return _both_extremes(v, result, ref, solution[0], max(honest))
    floor = max(statistics.median(honest), v.plays(ref, solution[:1]).total)
    for text in out_of_range(solution[0]):
        with contextlib.suppress(NotApplicable):
            played = v.plays(ref, [text])
            result.tries += 1
            if played.ended and v.paid(played) and played.total > floor + 0.02 * v.width and v.shown(played, v.paid):
                sentence = (
                    f"{text[:60]!r} ends the episode and is paid {played.total:g} at {ref}, honest tries {floor:g}"
                )
                result.add("broken rule", sentence, replay=played.replay, nonsense=played.total, wrong=floor)
                return True
    return False


def _both_extremes(v: Validation, result: CheckResult, ref: TaskRef, solution: str, floor: float) -> bool:
    paid = []
    for text in out_of_range(solution):
        with contextlib.suppress(NotApplicable):
            played = v.plays(ref, [text])
            result.tries += 1
            if v.paid(played) and not v.full(played) and played.total > floor + SLACK * v.width:
                paid.append(played)
    if len(paid) < 4 or len({episode.total for episode in paid}) > 1 or not v.shown(paid[-1], v.paid):
        return False
    text = f"{paid[-1].actions[0][:60]!r}, and numbers far below it, are paid {paid[-1].total:g} at {ref}"
    result.add("broken rule", f"{text}, a wrong answer at most {floor:g}", replay=paid[-1].replay, wrong=floor)
    return True
