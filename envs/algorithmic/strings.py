"""Strings of made-up words and letters.

Observation: words or texts, what to do with them, and how to write the answer.
"""

from __future__ import annotations

import random
import re
from functools import cache
from itertools import groupby, pairwise, permutations
from operator import add, itemgetter
from string import ascii_lowercase as ALPHABET
from typing import ClassVar

from rlvr.envs.algorithmic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, items, listed
from rlvr.envs.tasks.draws import below, permuted, picked
from rlvr.envs.tasks.questions import CheckedAnswerTask, ExactAnswerTask, Question, explained, question_of
from rlvr.envs.tasks.wording import in_a_row

_LETTERS = ALPHABET.encode()
CONSONANTS, VOWELS = "bcdfghjklmnprstvwxyz", "aeiou"
SYLLABLES = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]


@cache
def syllable_pairs() -> list[str]:
    """Two syllables each: number 100 n + m is syllable m, then syllable n."""
    return [first + second for second in SYLLABLES for first in SYLLABLES]


def word(rng: random.Random, length: int) -> str:
    """A made-up word that can be spoken."""
    code = rng.randint(0, len(SYLLABLES) ** ((length + 1) // 2) - 1)  # one draw for all syllables
    pairs, letters = syllable_pairs(), ""
    for _ in range((length + 3) // 4):
        letters += pairs[code % 10_000]
        code //= 10_000
    return letters[:length]


# Of 256 bytes each syllable has two or three: as even as made-up words need to be.
_CONSONANT_OF = bytes(ord(SYLLABLES[byte % len(SYLLABLES)][0]) for byte in range(256))
_VOWEL_OF = bytes(ord(SYLLABLES[byte % len(SYLLABLES)][1]) for byte in range(256))


def made_up(rng: random.Random, count: int, shortest: int, longest: int) -> str:
    """Made-up words of random lengths, apart by blanks, all from one draw.

    Vowels and consonants take turns through the whole text, which is then cut: some words begin with a vowel.
    """
    half = (count * (longest + 1) + 1) // 2
    drawn = rng.randbytes(count + half)
    codes, letters = drawn[count:], bytearray(2 * half)
    letters[::2], letters[1::2] = codes.translate(_CONSONANT_OF), codes.translate(_VOWEL_OF)
    end = -1
    for width in drawn[:count].translate(_widths(shortest, longest)):
        end += width
        letters[end] = 32  # a blank
    return letters[:end].decode()


@cache
def _widths(shortest: int, longest: int) -> bytes:
    """For each byte the length of a word with the blank that follows it."""
    return bytes(shortest + 1 + byte % (longest - shortest + 1) for byte in range(256))


def mixed_up(rng: random.Random, text: str) -> str:
    """The letters in another order, if there is one."""
    if len(set(text)) > 1:
        while (mixed := "".join(picked(rng, text, len(text)))) == text:
            pass
        return mixed
    return text


def numbered(words: list[str]) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(words, 1))


_BACKWARDS = {
    3: "Spell each word backwards, and keep the order of the words: ",
    4: "Write the line backwards, letter by letter and blanks too: ",
    5: "Write the words in reverse order, and spell the first, third, fifth... word of the result backwards: ",
}


class ReverseText(ListAnswerTask):
    """Spell words or lines backwards.

    Levels 1 and 2: a word of 8 and of 16 letters; 3: each of 6 words; 4: a whole line; 5: both in turn.

    Args:
        letters: of the word of level 1, 4 to 8; that of level 2 has twice as many.

    Raises:
        ValueError: another number of letters.
    """

    explain = explained(workings.reversed_text, "text")

    def __init__(self, *, letters: int = 8) -> None:
        super().__init__()
        if type(letters) is not int or not 4 <= letters <= 8:
            raise ValueError(f"letters must be a whole number from 4 to 8, got {letters!r}")
        self.letters = letters

    def ask(self, rng: random.Random, level: int) -> Question:
        """Made-up words, so that no spelling is known by heart."""
        if level <= 2:
            text = word(rng, self.letters * level)
            return question_of((f"Spell this word backwards: {text}", (text[::-1],), "", "", "", 0))
        line = made_up(rng, 2 * level, 4, 6 + level)
        gold = line[::-1].split()
        if level == 3:
            gold.reverse()
        elif level == 5:
            gold[1::2] = line.split()[-2::-2]
        return question_of((_BACKWARDS[level] + line, tuple(gold), "", "", "", 0))

    def direct_answer(self, state: Question) -> str:
        """Words apart by blanks, as the line stands in the question, not by commas."""
        return f"\\boxed{{{' '.join(state.answer)}}}"


_REMAINDERS = [bytes(byte % divisor for byte in range(256)) for divisor in range(1, 6)]


class SortWords(ListAnswerTask):
    """Sort words alphabetically.

    Levels 1 to 3: 5, 8 and 12 words, from level 2 on with common beginnings; 4 and 5: 12 and 16 in a shuffled alphabet.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Stems are shared from level 2 on, so that later letters decide; levels 4 and 5 give another alphabet."""
        count = (5, 8, 12, 12, 16)[level - 1]
        while True:
            words = made_up(rng, count + level - 1, 3, 7).split()
            if level > 1:
                stems = ["", *[w[: len(w) * 4 // 7] for w in words[count:]]]
                chosen = map(stems.__getitem__, rng.randbytes(count).translate(_REMAINDERS[level - 1]))
                words = list(map(add, chosen, words))
            if len(set(words)) == count:
                break
        shown = ", ".join(words)
        if level < 4:
            text = f"Sort these words in alphabetical order.\n{shown}\nAnswer with all words, in order."
            return question_of((text, tuple(sorted(words)), "", "", shown, 0))
        letters = permuted(rng, _LETTERS)
        keys = shown.encode().translate(bytes.maketrans(letters, _LETTERS)).split(b", ")
        keys.sort()
        gold = b" ".join(keys).translate(bytes.maketrans(_LETTERS, letters)).decode().split()
        text = f"Sort these words in the order of this alphabet: {letters.decode()}.\n{shown}\n"
        return question_of((f"{text}Answer with all words, in order.", tuple(gold), "", "", shown, 0))

    def explain(self, state: Question) -> str:
        """The words by their first letters, in the order of the alphabet, and each group sorted."""
        groups = groupby(state.answer, key=itemgetter(0))
        return "\n".join(f"{letter}: {listed(words)}" for letter, words in groups)


_SHIFTS = [bytes.maketrans(ALPHABET.encode(), (ALPHABET[by:] + ALPHABET[:by]).encode()) for by in range(26)]


# At the sum of the codes of two letters, the letter that one moves the other to.
_SUM_OF_LETTERS = bytes(ord(ALPHABET[(byte - 2 * ord("a")) % 26]) for byte in range(256))


def shifted(text: str, by: int) -> str:
    return text.encode().translate(_SHIFTS[by % 26]).decode()


class Ciphers(ListAnswerTask):
    """Decrypt a text.

    Level 1: Caesar; 2: its key is to be found; 3: substitution; 4: Vigenere; 5: of words written backwards.
    """

    explain = explained(workings.deciphered, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """The key is given, but at level 2, where the first word of the text is."""
        plain = made_up(rng, (3, 3, 5, 6, 7)[level - 1], 4, 7)
        words = plain.split()
        key = rng.randint(3, 23)
        if level == 1:
            code, how = shifted(plain, key), f"each letter was moved {key} places forward in the alphabet (z to a)"
        elif level == 2:
            code = shifted(plain, key)
            how = f"each letter was moved the same number of places forward; the first word was {words[0]}"
        elif level == 3:
            table = permuted(rng, _LETTERS)
            code = plain.encode().translate(bytes.maketrans(_LETTERS, table)).decode()
            how = f"the letters {ALPHABET} became {table.decode()}, one for one"
        else:
            secret = word(rng, level)
            text = " ".join(w[::-1] for w in words) if level == 5 else plain
            code, how = self.vigenere(text, secret), f"Vigenere with the key {secret} (a moves by 0; blanks use no key)"
            if level == 5:
                how = f"each word was written backwards, and then the text was put through {how}"
        text = f"A text of small letters was encrypted: {how}.\nEncrypted: {code}\n"
        return Question(f"{text}What was the text? Answer with its words.", tuple(words), "", "", plain)

    @staticmethod
    def vigenere(text: str, secret: str) -> str:
        """The text with each letter shifted by the secret's letter at its position; blanks do not count."""
        words, letters = text.split(" "), text.replace(" ", "").encode()
        count = len(letters)
        keys = (secret * (count // len(secret) + 1))[:count].encode()
        added = int.from_bytes(letters, "big") + int.from_bytes(keys, "big")  # no two letters add up to over a byte
        shown, start, parts = added.to_bytes(count, "big").translate(_SUM_OF_LETTERS).decode(), 0, []
        for part in words:
            parts.append(shown[start : start + len(part)])
            start += len(part)
        return " ".join(parts)

    def direct_answer(self, state: Question) -> str:
        """The text with blanks between its words, as the question shows the encrypted one."""
        return f"\\boxed{{{' '.join(state.answer)}}}"


class RunLength(ListAnswerTask):
    """Write out a text that is given by nested repeats.

    Levels 1 to 5: repeats nested up to 1, 2, 2, 3 and 3 deep, and 10 to 20, 40, 60, 80 and 110 letters.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws parts until the text has between half and all of the level's letters."""
        longest, depth = (20, 40, 60, 80, 110)[level - 1], (0, 1, 1, 2, 2)[level - 1]
        while True:
            parts = [self.part(rng, rng.randint(0, depth) if index else depth) for index in range(3 + (level + 1) // 2)]
            text = "".join(plain for _, plain in parts)
            if longest // 2 <= len(text) <= longest:
                break
        code = "".join(code for code, _ in parts)
        steps = "\n".join(f"{code} -> {plain}" for code, plain in parts)
        what = f"In this code, 3(xy) means xyxyxy, and brackets may stand within brackets. Write it out in full: {code}"
        return Question(what, (text,), steps)

    def part(self, rng: random.Random, depth: int) -> tuple[str, str]:
        """One repeat with its code and what it stands for."""
        times, letters = rng.randint(2, 5 if depth == 0 else 3), "".join(rng.choices(ALPHABET, k=rng.randint(1, 2)))
        if depth == 0:
            return f"{times}({letters})", times * letters
        code, plain = self.part(rng, depth - 1)
        code, plain = rng.choice(((letters + code, letters + plain), (code + letters, plain + letters)))
        return f"{times}({code})", times * plain


def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


class EditDistance(ExactAnswerTask):
    """Find the edit distance of two strings.

    Levels 1 to 5: words of 7, 9, 11, 13 and 16 letters, one of them changed up to 12, 11, 12, 13 and 15 times.
    """

    explain = explained(workings.distance_table, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Changes a word at random and asks for the Levenshtein distance, which may be less than the changes."""
        length = (7, 9, 11, 13, 16)[level - 1]
        fewest, longest, kinds = ((1, 12, 12), (2, 11, 8), (2, 12, 8), (2, 13, 8), (2, 15, 8))[level - 1]
        letters = "".join(rng.sample(ALPHABET, kinds))
        first = "".join(rng.choices(letters, k=length))
        second = list(first)
        for _ in range(rng.randint(fewest, longest)):
            index = rng.randrange(len(second))
            cut = rng.randint(0, 1) if len(second) > 2 else 0
            second[index : index + cut] = rng.choices(letters, k=rng.randint(0, 1))
        other = "".join(second)
        text = "What is the fewest single-letter insertions, deletions and replacements that turn one into the other?"
        return Question(f"{text}\n{first}\n{other}", edit_distance(first, other))


def common_subsequence(a: str, b: str) -> str:
    """A longest common subsequence, by the table of the longest ones of the ends."""
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            best[i][j] = best[i + 1][j + 1] + 1 if a[i] == b[j] else max(best[i + 1][j], best[i][j + 1])
    i = j = 0
    letters = []
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            letters.append(a[i])
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return "".join(letters)


class CommonSubsequence(CheckedAnswerTask):
    """Find a longest common subsequence of two strings.

    Levels 1 to 5: two strings of 7, 9, 11, 13 and 16 letters out of five.
    """

    explain = explained(workings.common_table, "text", "answer_text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Random strings over five letters with at least two letters in common order."""
        letters, length = rng.sample(ALPHABET, 5), (7, 9, 11, 13, 16)[level - 1]
        while True:
            first, second = ("".join(rng.choices(letters, k=length)) for _ in range(2))
            if len(best := common_subsequence(first, second)) >= 2:
                break
        text = f"Two strings:\n{first}\n{second}\nGive a longest string whose letters occur in both in the same order, "
        return Question(f"{text}not necessarily side by side.", (first, second, len(best)), answer_text=best)

    def check(self, question: Question, answer: str) -> str | None:
        """Any common subsequence of the greatest length is right."""
        first, second, length = question.answer
        (letters,) = items(answer, 1)
        if len(letters) != length:
            return f"it has {len(letters)} letters, the longest have another number"
        for string in (first, second):
            rest = iter(string)
            if not all(letter in rest for letter in letters):
                return f"it is no subsequence of {string}"
        return None


# Bytes as digits below 2, 3 or 4, and the two bits of such a digit.
_KINDS = {count: bytes(ord("0") + byte % count for byte in range(256)) for count in (2, 3, 4)}
_LOW, _HIGH = bytes.maketrans(b"0123", b"0101"), bytes.maketrans(b"0123", b"0011")


def palindromes(kinds: bytes) -> int:
    """How many substrings of at least two digits from 0 to 3 read the same backwards.

    Where those of a length end is one number, a bit for each position: one that is two shorter ends before it, and its
    ends are equal.
    """
    low, high = int(kinds.translate(_LOW), 2), int(kinds.translate(_HIGH), 2)
    every = (1 << len(kinds)) - 1
    total, inner, last = 0, -1, every  # no letter and one letter are palindromes everywhere
    for distance in range(1, len(kinds)):
        equal = every >> distance & ~((low ^ low >> distance) | (high ^ high >> distance))
        inner, last = last, equal & inner >> 1
        total += last.bit_count()
        if not last and not inner:
            break
    return total


class PalindromeCount(ExactAnswerTask):
    """Count the palindromes in a string.

    Levels 1 to 5: strings of 12, 16, 20, 24 and 30 letters out of four, then three, then two.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws letters of equal chance; equal palindromes at other positions count again."""
        count, length = (4, 4, 3, 3, 2)[level - 1], (12, 16, 20, 24, 30)[level - 1]
        code, pool, letters = rng.randrange(26 * 25 * 24 * 23), [*ALPHABET], ""
        for left in range(26, 26 - count, -1):
            code, index = divmod(code, left)
            letters += pool.pop(index)
        kinds = rng.randbytes(length).translate(_KINDS[count])
        text = kinds.translate(bytes.maketrans(b"0123"[:count], letters.encode())).decode()
        what = "How many substrings of at least two letters read the same backwards? Count each place of occurrence."
        return Question(f"{what}\n{text}", palindromes(kinds))

    def explain(self, state: Question) -> str:
        """The palindromes, from left to right by their middle and the shortest first."""
        text = state.text.rpartition("\n")[2]
        parts = []
        for middle in range(2 * len(text) - 1):
            left, right = middle // 2, (middle + 1) // 2
            while left >= 0 and right < len(text) and text[left] == text[right]:
                if left < right:
                    parts.append(text[left : right + 1])
                left, right = left - 1, right + 1
        if not parts:
            return f"{text} has two equal letters neither side by side nor around one letter: no palindrome."
        return f"{text} has, around each letter and each gap from the left: {' '.join(parts)}. These are {len(parts)}."


class Anagrams(ListAnswerTask):
    """Find the words that have an anagram among the others.

    Levels 1 to 5: 6, 9, 12, 15 and 20 words of 4 to 8 letters; near misses differ in one letter.
    """

    ordered: ClassVar[bool] = False

    def ask(self, rng: random.Random, level: int) -> Question:
        """Pairs of anagrams and pairs that differ in a letter, shuffled; at least one pair is real."""
        count = (6, 9, 12, 15, 20)[level - 1]
        while True:
            words = self.words(rng, count, 3 + level)
            if len(set(words)) == count:
                break
        content = " ".join(sorted(words))
        words = picked(rng, words, count)
        first: dict[str, int] = {}
        gold: set[int] = set()
        for number, text in enumerate(words, 1):
            earlier = first.setdefault("".join(sorted(text)), number)
            if earlier < number:
                gold |= {earlier, number}
        what = "Which of these words have an anagram among the others? Answer with their numbers."
        return Question(f"{what}\n{numbered(words)}", tuple(sorted(gold)), "", "", content)

    @staticmethod
    def words(rng: random.Random, count: int, length: int) -> list[str]:
        """Words and, in the other order, their twins, of which some have one letter changed."""
        real, bases = 1 + rng.randrange(count // 3), made_up(rng, (count + 1) // 2, length, length).split()
        twins = bases[:real]
        for base, code in zip(bases[real:], below(rng, 26 * length, len(bases) - real), strict=True):
            index, letter = divmod(code, 26)
            twins.append(base[:index] + ALPHABET[letter] + base[index + 1 :])
        mixed = permuted(rng, "".join(twins).encode(), length).decode()
        others = [mixed[start : start + length] for start in range(0, len(mixed), length)]
        for index, (base, other) in enumerate(zip(bases, others, strict=True)):
            if base == other:  # a word is no anagram of itself
                others[index] = mixed_up(rng, base)
        return (bases + others)[:count]

    def explain(self, state: Question) -> str:
        """Each word with its letters in the order of the alphabet."""
        rows = [row.partition(". ") for row in state.text.split("\n")[1:]]
        alike: dict[str, list[str]] = {}
        for number, _, text in rows:
            alike.setdefault("".join(sorted(text)), []).append(number)
        lines = [f"{number}. {text}: {''.join(sorted(text))}" for number, _, text in rows]
        pairs = [f"{in_a_row(numbers)} ({letters})" for letters, numbers in alike.items() if len(numbers) > 1]
        return "\n".join(["Letters sorted:", *lines, f"Alike: {'; '.join(pairs)}."])


class BracketCompletion(CheckedAnswerTask):
    """Close the brackets that are open.

    Levels 1 to 5: 12, 20, 30, 44 and 60 brackets of three kinds, 4 to 8 of them left open.
    """

    CLOSING: ClassVar[dict[str, str]] = {"(": ")", "[": "]", "<": ">"}

    def ask(self, rng: random.Random, level: int) -> Question:
        """Random prefix of balanced brackets; the answer closes what is open, the innermost first."""
        length, depth = (12, 20, 30, 44, 60)[level - 1], 3 + level
        length += (length - depth) % 2
        closers = (length - depth) // 2
        openers = length - closers
        text: list[str] = []
        stack: list[str] = []
        while openers or closers:
            if stack and rng.random() * (openers + closers) < closers:
                text.append(self.CLOSING[stack.pop()])
                closers -= 1
            else:
                stack.append(rng.choice("([<"))
                text.append(stack[-1])
                openers -= 1
        gold = "".join(self.CLOSING[symbol] for symbol in reversed(stack))
        what = "Complete this sequence of brackets ( ) [ ] < > with the fewest closing brackets. "
        return Question(f"{what}Answer with the added brackets only.\n{''.join(text)}", gold)

    def explain(self, state: Question) -> str:
        """The sequence without its pairs, innermost first, until only open brackets are left."""
        text = state.text.rpartition("\n")[2]
        lines = [f"The sequence {text} again and again without the pairs that stand together:"]
        while (shorter := re.sub(r"\(\)|\[\]|<>", "", text)) != text:
            lines.append(shorter)
            text = shorter
        return "\n".join([*lines, f"Still open, the last to be closed first: {' '.join(text)}"])

    def check(self, question: Question, answer: str) -> str | None:
        """Blanks and math delimiters do not count; the completion is unique, so it is compared."""
        brackets = "".join(answer.split())
        for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]")):
            if brackets.startswith(opening) and brackets.endswith(closing):
                brackets = brackets[2:-2]
        brackets = brackets.strip("$*_`.")
        if not set(brackets) <= set(")]>"):
            raise ValueError("the answer has something else than ) ] >")
        return None if brackets == question.answer else "these do not complete it"


@cache
def asked_letters(level: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The vowels that may be asked for at a level, one to four in every order, and the consonants, one or two.

    Each beside its part of ``in_a_row``'s list.
    """
    vowels, consonants = permutations(VOWELS, min(4, level)), permutations(CONSONANTS, max(1, level - 3))
    first = [("".join(letters), ", ".join(letters)) for letters in vowels]
    return first, [
        ("".join(letters), f", {in_a_row(letters)}" if level > 4 else f" and {letters[0]}") for letters in consonants
    ]


class LetterCounts(ListAnswerTask):
    """Count letters in words.

    Levels 1 to 5: two to six letters in 3, 6, 10, 16 and 24 words.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Up to four vowels and three consonants, counted over the whole text."""
        count, (vowels, consonants) = (3, 6, 10, 16, 24)[level - 1], asked_letters(level)
        text = made_up(rng, count, 4, 9)
        (asked, row), (more, rest) = rng.choice(vowels), rng.choice(consonants)
        what = f"How often does each of the letters {row}{rest} occur here? Answer with the numbers, in order."
        return Question(f"{what}\n{text}", tuple(map(text.count, asked + more)), "", "", text)

    def explain(self, state: Question) -> str:
        """For each letter, the words in which it occurs, and how often."""
        question, text = state.text.split("\n")
        letters = re.findall(r"\b\w\b", question.partition("letters ")[2].partition(" occur")[0])
        rows = []
        for letter, count in zip(letters, state.answer, strict=True):
            held = [f"{word} {word.count(letter)}" for word in text.split() if letter in word]
            rows.append(f"{letter}: {', '.join(held) or 'in no word'}; {count} in all")
        return "\n".join(rows)


class PatternMatch(ListAnswerTask):
    """Find the words that match a pattern.

    Levels 1 to 5: 8 to 16 words and patterns of 4 to 8 parts, from level 3 on with sets of letters.
    """

    ordered: ClassVar[bool] = False
    explain = explained(workings.pattern_match, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Three words in five had a letter changed, left out or doubled; at least two match, at least one does not."""
        letters, count = "".join(rng.sample(ALPHABET, 5)), 6 + 2 * level
        kinds = "ll?*" if level < 3 else "ll?*["
        while True:
            pattern = []
            for kind in rng.choices(kinds, k=3 + level):
                some = "".join(sorted(rng.sample(letters, 2)))
                pattern.append(some[0] if kind == "l" else f"[{some}]" if kind == "[" else kind)
            if "*" not in pattern or any(left == right == "*" for left, right in pairwise(pattern)):
                continue
            rule = re.compile("".join({"?": ".", "*": ".*"}.get(part, part) for part in pattern))
            words = [self.example(rng, pattern, letters) for _ in range(count)]
            gold = [number for number, text in enumerate(words, 1) if rule.fullmatch(text)]
            if 2 <= len(gold) < count:
                break
        what = "In a pattern ? stands for any one letter, * for any letters or none, [ab] for a or b. "
        what += f'Which of the words match the pattern "{"".join(pattern)}" as a whole? Answer with their numbers.'
        return Question(f"{what}\n{numbered(words)}", tuple(gold))

    @staticmethod
    def example(rng: random.Random, pattern: list[str], letters: str) -> str:
        """A word that matches, or one with a letter changed, left out or doubled."""
        text = ""
        for part in pattern:
            if part == "*":
                text += "".join(rng.choices(letters, k=rng.randint(0, 3)))
            else:
                text += rng.choice(letters if part == "?" else part.strip("[]"))
        if rng.random() < 0.6:
            index = rng.randrange(len(text))
            text = text[:index] + rng.choice(("", *letters, text[index] * 2)) + text[index + 1 :]
        return text or letters
