"""Recipes: scaling, shopping lists, and their text."""

from rlvr.envs.agentic.repository_numbers.rounding import half_up
from rlvr.envs.agentic.repository_numbers.units import add_quantities, largest_unit, parse_quantity
from rlvr.envs.agentic.repository_texts.wrapping import columns, numbered, wrap_words


class MealRecipe:
    """Ingredients as quantities by name, steps, and for how many people they are."""

    def __init__(self, title: str, people: int) -> None:
        self.title = title
        self.people = people
        self.ingredients: dict[str, str] = {}
        self.steps: list[str] = []

    def add(self, name: str, quantity: str) -> None:
        """Add an ingredient, such as "200 g"; more of one that is there is added, in the unit of what comes."""
        number, unit = parse_quantity(quantity)
        if name in self.ingredients:
            number = add_quantities([self.ingredients[name], quantity], unit)
        self.ingredients[name] = f"{number} {unit}"

    def scaled(self, people: int) -> dict[str, str]:
        """The ingredients for so many people, each rounded to the nearest; ValueError for nobody."""
        if people < 1:
            raise ValueError("for nobody")
        result = {}
        for name, quantity in self.ingredients.items():
            number, unit = parse_quantity(quantity)
            result[name] = f"{half_up(number * people, self.people)} {unit}"
        return result

    def lines(self, width: int) -> list[str]:
        """The text: the title, the ingredients in columns, the numbered steps, wrapped to the width."""
        cells = [[quantity, name] for name, quantity in sorted(self.ingredients.items())]
        steps = [line for step in self.steps for line in wrap_words(step, width)]
        return [self.title.upper(), *columns(cells, 1), *numbered(steps, 1)]


def shopping_list(recipes: list[MealRecipe], people: int, pantry: dict[str, str]) -> dict[str, str]:
    """What recipes for so many people need beyond what is in the pantry, by name, in the largest whole unit.

    Amounts are counted in grams.
    """
    needed: dict[str, int] = {}
    for recipe in recipes:
        for name, quantity in recipe.scaled(people).items():
            needed[name] = needed.get(name, 0) + add_quantities([quantity], "g")
    missing = {}
    for name in sorted(needed):
        stock = add_quantities([pantry[name]], "g") if name in pantry else 0
        if needed[name] > stock:
            missing[name] = largest_unit(needed[name] - stock, "g")
    return missing


def most_people(recipe: MealRecipe, pantry: dict[str, str]) -> int:
    """For how many people the pantry is enough."""
    counts = []
    for name, quantity in recipe.ingredients.items():
        stock = add_quantities([pantry[name]], "g") if name in pantry else 0
        counts.append(stock * recipe.people // add_quantities([quantity], "g"))
    return min(counts, default=0)


MODULE = ("recipes", "dishes", "kitchen")
ALIASES = {"MealRecipe": ("Dish",), "shopping_list": ("things_to_buy",), "most_people": ("guests_possible",)}
SCENARIOS = (
    "recipe = MealRecipe('<w>', <2..4>)\nrecipe.add('flour', '<100..900> g')\nrecipe.add('rice', '<1..3> kg')\n"
    "recipe.scaled(<1..9>)",
    "recipe = MealRecipe('<w>', 2)\nrecipe.add('flour', '<1..3> kg')\nrecipe.add('flour', '<100..900> g')\n"
    "recipe.ingredients",
    "recipe = MealRecipe('<w>', 2)\nrecipe.add('flour', '<100..900> g')\nrecipe.add('flour', '<1..3> kg')\n"
    "recipe.scaled(<0..4>)",
    "recipe = MealRecipe('<w>', 2)\nrecipe.add('<w>', '<10..900> g')\nrecipe.add('<w>', '1 kg')\n"
    "recipe.steps.append(' '.join(<5*w>))\nrecipe.steps.append('<w>')\nrecipe.lines(<12..20>)",
    "recipe = MealRecipe('<w>', 2)\nrecipe.add('a', '<100..900> g')\nrecipe.add('b', '<1..9>00 g')\n"
    "shopping_list([recipe], <2..8>, {'a': '<1..2> kg', 'b': '<100..500> g'})",
    "one = MealRecipe('x', 2)\none.add('a', '<200..900> g')\ntwo = MealRecipe('y', <3..4>)\ntwo.add('a', '<1..2> kg')\n"
    "shopping_list([one, two], 4, {'a': '<100..900> g'})",
    "recipe = MealRecipe('<w>', <2..4>)\nrecipe.add('a', '<100..300> g')\nrecipe.add('b', '<50..90> g')\n"
    "(most_people(recipe, {'a': '<1..2> kg', 'b': '<300..900> g'}), most_people(recipe, {'a': '1 kg'}))",
    "recipe = MealRecipe('<w>', 2)\nrecipe.add('a', '<5|x|> <g|lb>')\nrecipe.ingredients",
)
