"""Surveys: answers are read, counted and printed."""

from rlvr.envs.agentic.repository_numbers.figures import histogram, mean_of, median_of, percentile
from rlvr.envs.agentic.repository_numbers.rounding import shares
from rlvr.envs.agentic.repository_texts.records import read_records
from rlvr.envs.agentic.repository_texts.tables import printed, ranked


class Survey:
    """Answers from 1 to 5 to questions, read from lines of fields; an empty field is no answer."""

    def __init__(self, text: str) -> None:
        self._answers: dict[str, list[int]] = {}
        for record in read_records(text):
            for question, field in record.items():
                numbers = self._answers.setdefault(question, [])
                if field:
                    numbers.append(self.checked(field))

    def checked(self, field: str) -> int:
        """The number of a field; ValueError if it is none from 1 to 5."""
        if not field.isdigit() or not 1 <= int(field) <= 5:
            raise ValueError(f"not an answer: {field}")
        return int(field)

    def count(self, question: str) -> int:
        """How many people answered a question; KeyError if it was not asked."""
        return len(self._answers[question])

    def percentages(self, question: str) -> list[int]:
        """How many percent gave each answer from 1 to 5; they add up to 100, or are all 0 if nobody answered."""
        counts = [self._answers[question].count(number) for number in range(1, 6)]
        return shares(100, counts) if sum(counts) > 0 else counts

    def summary(self, question: str) -> dict[str, int]:
        """Mean in hundredths, median and the answer that nine in ten do not exceed; ValueError if nobody answered."""
        answers = self._answers[question]
        hundredths = mean_of([100 * answer for answer in answers])
        return {"mean": hundredths, "median": median_of(answers), "high": percentile(answers, 90)}

    def top(self, least: int) -> list[tuple[int, str]]:
        """Place and name of the questions with so many answers at least, by the sum of the answers that are 4 or 5."""
        scores = {
            question: sum(answer for answer in answers if answer >= 4)
            for question, answers in self._answers.items()
            if len(answers) >= least
        }
        return ranked(scores)

    def lines(self) -> list[str]:
        """A table of how often each answer was given to each question, numbered from 1."""
        rows = []
        for number, answers in enumerate(self._answers.values(), 1):
            counts = histogram(answers, 1)
            rows.append({"question": number, **{str(answer): counts.get(answer, 0) for answer in range(1, 6)}})
        return printed(rows, ["question", "1", "2", "3", "4", "5"])


MODULE = ("surveys", "polls", "questionnaires")
ALIASES = {"Survey": ("Poll", "Questionnaire")}
SCENARIOS = (
    "survey = Survey('a,b\\n<1..5>,<1..5>\\n<1..5>,\\n<1..5>,<1..5>\\n')\n"
    "(survey.count('a'), survey.count('b'), survey.summary('a'))",
    "survey = Survey('a\\n' + '\\n'.join(str(n) for n in <9*1..5>))\n(survey.percentages('a'), survey.summary('a'))",
    "survey = Survey('a\\n' + '\\n'.join(str(n) for n in <6*2..5>))\nsurvey.percentages('a')",
    "Survey('a,b\\n<1..6>,<0..5>\\n').count('b')",
    "survey = Survey('a,b,c\\n<3..5>,<3..5>,<3..5>\\n<3..5>,,<3..5>\\n<2..5>,<4..5>,<1..5>\\n')\nsurvey.top(<2..3>)",
    "survey = Survey('a,b\\n<1..5>,<1..5>\\n<1..5>,\\n# 9,9\\n<1..5>,3\\n')\nsurvey.lines()",
    "survey = Survey('\"a,<x=w>\",b\\n,<1..5>\\n')\n(survey.percentages('b'), survey.percentages('a,<x>'))",
    "survey = Survey('a,b\\n,<1..5>\\n')\nsurvey.summary('<a|b>')",
)
