"""Reports of sales: read from records, summed by month and article, printed."""

from rlvr.envs.agentic.repository_numbers.amounts import format_amount, parse_amount, split_evenly
from rlvr.envs.agentic.repository_numbers.dates import parse_day, quarter
from rlvr.envs.agentic.repository_texts.records import read_records, write_records
from rlvr.envs.agentic.repository_texts.tables import grouped, ordered, where
from rlvr.envs.agentic.repository_texts.wrapping import columns, pad


class SalesReport:
    """Sales with a day, an article and an amount, as "day,article,amount" records."""

    def __init__(self, text: str) -> None:
        self._rows = read_records(text)

    def total(self) -> int:
        """The sum of all sales in cents."""
        return sum(parse_amount(row["amount"]) for row in self._rows)

    def by_quarter(self) -> dict[int, int]:
        """The sum of the sales of each quarter that has some, in the order of the quarters."""
        rows = [{"quarter": quarter(parse_day(row["day"])), "cents": parse_amount(row["amount"])} for row in self._rows]
        groups = grouped(ordered(rows, ["quarter"]), "quarter", "cents")
        return {number: sum(amounts) for number, amounts in groups.items()}

    def between(self, first: str, last: str) -> int:
        """The sum of the sales from one day to another, both included."""
        return sum(parse_amount(row["amount"]) for row in where(self._rows, "day", first, last))

    def best(self, count: int) -> list[str]:
        """The articles with the highest sums, at most so many; of equal ones by name."""
        sums: dict[str, int] = {}
        for row in self._rows:
            sums[row["article"]] = sums.get(row["article"], 0) + parse_amount(row["amount"])
        return sorted(sums, key=lambda name: (-sums[name], name))[:count]

    def bonus(self, people: int, tenth: int) -> list[int]:
        """One in tenth cents of the total, rounded down, divided evenly among people."""
        return split_evenly(self.total() // tenth, people)

    def lines(self) -> list[str]:
        """Each article with its number of sales and its sum, by name; the sums are aligned to the right."""
        names = sorted({row["article"] for row in self._rows})
        cells = []
        for name in names:
            amounts = [parse_amount(row["amount"]) for row in self._rows if row["article"] == name]
            cells.append([name, str(len(amounts)), format_amount(sum(amounts))])
        width = max((len(cell[2]) for cell in cells), default=0)
        return columns([[name, count, pad(amount, width, "right")] for name, count, amount in cells], 2)

    def without_article(self, name: str) -> str:
        """The records without those of an article, as text; the report itself is not changed."""
        return write_records([row for row in self._rows if row["article"] != name], ["day", "article", "amount"])


MODULE = ("reports", "sales", "sales_report")
ALIASES = {"SalesReport": ("SalesTable", "Sales")}
SCENARIOS = (
    "report = SalesReport('day,article,amount\\n2024-0<1..9>-05,<a|b>,<1..99>.5\\n2024-<10..12>-05,<a|b>,<1..99>\\n')\n"
    "(report.total(), report.by_quarter())",
    "report = SalesReport('day,article,amount\\n2024-0<1..9>-05,a,<1..99>.25\\n2024-0<1..9>-05,b,<1..99>\\n"
    "2024-0<1..9>-07,c,-<1..9>\\n')\n"
    "report.by_quarter()",
    "report = SalesReport('day,article,amount\\n2024-01-05,a,<1..99>\\n2024-01-07,b,<1..99>\\n"
    "2024-01-09,c,<1..99>\\n')\n"
    "report.between('2024-01-0<4..6>', '2024-01-0<6..9>')",
    "report = SalesReport('day,article,amount\\n2024-01-05,a,<1..9>\\n2024-01-05,c,<3..5>\\n2024-01-05,b,<3..5>\\n"
    "2024-01-06,a,1\\n')\n"
    "report.best(<1..3>)",
    "report = SalesReport('day,article,amount\\n2024-01-05,a,<10..99>.<10..99>\\n')\nreport.bonus(<2..4>, <5..20>)",
    "report = SalesReport('day,article,amount\\n2024-01-05,<w>,<1000..9999>.5\\n2024-01-05,<w>,<1..99>\\n"
    "2024-01-06,<w>,<1..99>\\n')\n"
    "report.lines()",
    'report = SalesReport(\'day,article,amount\\n2024-01-05,a,<1..99>\\n2024-01-05,"b,c","<1..9>,<100..900>"\\n\')\n'
    "(report.without_article('<a|b|b,c>'), report.total())",
    "SalesReport('day,article,amount\\n2024-<01|13|02>-<05|30>,a,1\\n').by_quarter()",
)
