"""Identifiers: slugs, check digits, numbers in series."""


def slug(text: str, longest: int) -> str:
    """Small letters and digits of a text, with one "-" for what stands between them; at most longest signs.

    It neither begins nor ends with "-".
    """
    signs: list[str] = []
    for sign in text.lower():
        if sign.isalnum():
            signs.append(sign)
        elif signs and signs[-1] != "-":
            signs.append("-")
    return "".join(signs)[:longest].strip("-")


def free_slug(text: str, taken: list[str]) -> str:
    """The slug of a text, or the first of slug-2, slug-3, ... that is not taken."""
    base = slug(text, 40)
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name


def check_digit(digits: str) -> int:
    """The digit that makes the weighted sum a multiple of 10.

    From the right, the digits count twice and once in turn; a double of more than 9 counts less 9.
    """
    total = 0
    for index, sign in enumerate(reversed(digits)):
        value = int(sign) * (2 if index % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return -total % 10


def is_valid_number(digits: str) -> bool:
    """Whether a number of at least two digits ends with the check digit of the rest."""
    if len(digits) < 2 or not digits.isdigit():
        return False
    return check_digit(digits[:-1]) == int(digits[-1])


def next_number(numbers: list[str], prefix: str) -> str:
    """The next of a series such as "INV-0007": one more than the highest of the prefix, in four digits at least."""
    highest = 0
    for number in numbers:
        series, _, count = number.rpartition("-")
        if series == prefix and count.isdigit():
            highest = max(highest, int(count))
    return f"{prefix}-{highest + 1:04d}"


def initials(name: str) -> str:
    """The first letters of the words of a name, as capitals: "ada m. byron" is "AMB"."""
    return "".join(word[0].upper() for word in name.split() if word[0].isalpha())


MODULE = ("ids", "identifiers", "labels")
ALIASES = {
    "slug": ("slug_of", "short_name"),
    "free_slug": ("unused_slug",),
    "check_digit": ("control_digit",),
    "next_number": ("number_after",),
    "is_valid_number": ("has_valid_check",),
}
SCENARIOS = (
    "slug(' <w>, <W|X9> & <w>! ', <8..30>)",
    "slug('<w>--<w> <w>', <5..12>)",
    "slug('<w> <w>', <4..6>)",
    "free_slug('<a|b> Plan', ['<a|b>-plan', 'a-plan-2', 'b-plan'])",
    "free_slug('a', ['a', 'a-2', 'a-<3|4>'])",
    "[check_digit(digits) for digits in ('<1000..9999>', '<10..99>', '<5..9><5..9>')]",
    "[is_valid_number(digits) for digits in ('<10..99>', '<100..199>', '<100..199>', '18', '26', '<0..9>', '1x')]",
    "is_valid_number(str(<d=100..999>) + str(check_digit(str(<d>))))",
    "next_number(['A-<1..50>', 'A-00<10..60>', 'B-<70..99>', 'A-x'], '<A|B|C>')",
    "next_number(['A-<9997..9999>'], 'A')",
    "initials('<w> <w>  <w>')",
    "initials('<w> (<w>) 7 <w>')",
)
