"""Natural forms: how many right answers are paid, and how many wrong ones, in each family of answers.

    PYTHONSAFEPATH=1 python benchmarks/forms.py [--texts 3000] [--family NAME] [--show 20] [--out benchmarks/results]

Each family has right and wrong values in the same forms, and doubts: natural_forms.py. ``--show`` prints replies that
are read wrongly, and which spellings and phrasings are lost most often.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import form_lists as lists
import form_values as values
from natural_forms import Family, Text, texts
from results import write_results

ROOT = Path(__file__).parents[1]
FAMILIES: Final[dict[str, Callable[[], list[Family]]]] = {
    "integers": lambda: [values.integers(kind, large) for kind in ("number", "math") for large in (False, True)],
    "decimals": lambda: [values.decimals()],
    "fractions": lambda: [values.fractions(kind) for kind in ("number", "math")],
    "mixed numbers": lambda: [values.mixed(kind) for kind in ("number", "math")],
    "percentages": lambda: [values.percentages()],
    "money": lambda: [values.money()],
    "units": lambda: [values.units(kind) for kind in ("number", "math")],
    "complex": lambda: [values.complexes()],
    "surds": lambda: [values.surds()],
    "expressions": lambda: [values.expressions()],
    "sets": lambda: [values.sets()],
    "intervals": lambda: [values.intervals()],
    "matrices": lambda: [values.matrices()],
    "choices": lambda: [values.choices(knows_options) for knows_options in (False, True)],
    "names": lambda: [values.exact("names", values.NAMES)],
    "yes or no": lambda: [values.exact("yes or no", values.YES)],
    "dates": lambda: [lists.dates()],
    "times": lambda: [lists.times()],
    "strings": lambda: [lists.from_env("ReverseText", spellings=lists.LISTS, label="strings")],
    "lists": lambda: [
        lists.from_env(name, spellings=lists.LISTS, label=f"lists ({name})")
        for name in ("SortWords", "LetterCounts", "SetAlgebra", "Zebra", "CodeOutput")
    ],
    "named lists": lambda: [
        lists.named_lists("KnightsAndKnaves", r"What (?:are|is) ([A-Z][^?]*)\?", "{n} is a {p}"),
        lists.named_lists("AgeProblems", r"How old are (.*?) (?:today|now)"),
        lists.named_lists("LinearSystems", r"whole numbers? (.*?) in this order", dash="{n} = {p}"),
    ],
    "boards": lambda: [lists.boards()],
}


def measured(family: Family, count: int, seed: int) -> tuple[Counter[str], list[Text]]:
    """Right and wrong replies of a family, how many of each are paid, and the texts that are read wrongly."""
    counts: Counter[str] = Counter()
    misread: list[Text] = []
    for text, pays in texts(family, count, seed):
        paid = pays(text.reply)
        counts["right" if text.right else "wrong"] += 1
        counts["paid" if text.right else "false"] += paid
        if paid != text.right:
            misread.append(text)
    return counts, misread


def show(misread: list[Text], count: int) -> None:
    """What is read wrongly."""
    lost = [text for text in misread if text.right]
    for text in [text for text in misread if not text.right][:count]:
        print("  PAID", repr(text.reply))
    for text in lost[:count]:
        print("  LOST", repr(text.reply))
    print("  spellings:", Counter(text.spelling for text in lost).most_common(12))
    print("  phrasings:", Counter(text.phrasing for text in lost).most_common(12))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--texts", type=int, default=3000, help="right replies of a family; about twice as many are wrong"
    )
    parser.add_argument("--family", choices=FAMILIES, help="this kind alone; nothing is written")
    parser.add_argument("--show", type=int, default=0, help="so many of the replies that are read wrongly")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    facts: dict[str, Any] = {}
    total: Counter[str] = Counter()
    for name in [options.family] if options.family else FAMILIES:
        for family in FAMILIES[name]():
            counts, misread = measured(family, options.texts, options.seed)
            total += counts
            share = f"{counts['paid'] / counts['right']:.4f} of {counts['right']} right replies paid"
            facts[family.name] = f"{share}, {counts['false']} of {counts['wrong']} wrong ones"
            print(f"{family.name}: {facts[family.name]}", flush=True)
            if options.show:
                show(misread, options.show)
    share = f"{total['paid'] / total['right']:.4f} of {total['right']} right replies paid"
    facts["all"] = f"{share}, {total['false']} of {total['wrong']} wrong ones"
    if not options.family:
        write_results("forms", [], facts, options.out)


if __name__ == "__main__":
    main()
