"""Address books: people are found by beginnings, patterns and nearly right names."""

from rlvr.envs.agentic.repository_texts.ids import free_slug, initials
from rlvr.envs.agentic.repository_texts.matching import common_prefix, matches, nearest
from rlvr.envs.agentic.repository_texts.records import merge_records, read_records, write_records
from rlvr.envs.agentic.repository_texts.wrapping import columns


class AddressBook:
    """People with a name, an e-mail address and labels, by an identifier made of the name."""

    def __init__(self) -> None:
        self._people: dict[str, dict[str, str]] = {}
        self._labels: dict[str, set[str]] = {}

    def add(self, name: str, mail: str) -> str:
        """Add somebody; the identifier. ValueError if the address has not one "@", or another person has it."""
        if mail.count("@") != 1 or mail.startswith("@") or mail.endswith("@"):
            raise ValueError(f"not an address: {mail}")
        if any(person["mail"].lower() == mail.lower() for person in self._people.values()):
            raise ValueError(f"{mail} is taken")
        key = free_slug(name, list(self._people))
        self._people[key] = {"name": name, "mail": mail}
        return key

    def label(self, key: str, label: str) -> int:
        """Give somebody a label; how many people have it then. KeyError for an unknown person."""
        if key not in self._people:
            raise KeyError(key)
        self._labels.setdefault(label, set()).add(key)
        return len(self._labels[label])

    def remove(self, key: str) -> list[str]:
        """Take somebody out; the labels that nobody has any more, sorted."""
        del self._people[key]
        emptied = []
        for label, keys in sorted(self._labels.items()):
            keys.discard(key)
            if not keys:
                emptied.append(label)
        for label in emptied:
            del self._labels[label]
        return emptied

    def find(self, pattern: str) -> list[str]:
        """The identifiers whose name or address fits a pattern, without regard to capitals, sorted."""
        small = pattern.lower()
        return sorted(
            key
            for key, person in self._people.items()
            if matches(small, person["name"].lower()) or matches(small, person["mail"].lower())
        )

    def complete(self, beginning: str) -> str:
        """The beginning, made longer as far as all names that begin so agree; unchanged if there is none."""
        names = [person["name"] for person in self._people.values() if person["name"].startswith(beginning)]
        return common_prefix(names) if names else beginning

    def meant(self, name: str) -> str | None:
        """The name that somebody may have meant: at most two signs away; None if there is none."""
        return nearest(name, [person["name"] for person in self._people.values()], 2)

    def export(self) -> str:
        """All people as records, by identifier."""
        rows = [{"id": key, **person} for key, person in sorted(self._people.items())]
        return write_records(rows, ["id", "name", "mail"])

    def load(self, text: str) -> int:
        """Take records of export in; those of an identifier that is there replace it. How many people there are."""
        rows = [{"id": key, **person} for key, person in self._people.items()]
        merged_rows = merge_records(rows, read_records(text), "id")
        self._people = {row["id"]: {"name": row["name"], "mail": row["mail"]} for row in merged_rows}
        return len(self._people)

    def lines(self, label: str) -> list[str]:
        """Initials and address of the people with a label, in columns, by identifier."""
        keys = sorted(self._labels.get(label, set()))
        return columns([[initials(self._people[key]["name"]), self._people[key]["mail"]] for key in keys], 2)


MODULE = ("contacts", "address_book", "people")
ALIASES = {"AddressBook": ("ContactList", "Directory")}
SCENARIOS = (
    "book = AddressBook()\n"
    "[book.add('<Ann|Bob> Lee', 'a@x.org'), book.add('ann lee', 'b@x.org'), book.add('<w> <w>', 'c@x.org')]",
    "book = AddressBook()\nbook.add('Ann', 'a@x.org')\nbook.add('Bob', '<a@x.org|A@X.org|b@x.org|@x|b@>')",
    "book = AddressBook()\nfor word in <5*w>:\n    book.add(word.title(), word + '@x.org')\n"
    "(book.find('*<r|e|a>*'), book.find('<A|b|F>*'))",
    "book = AddressBook()\nbook.add('Anna', 'a@x.org')\nbook.add('Anne', 'b@x.org')\n"
    "book.add('<Annika|Bo>', 'c@x.org')\n"
    "[book.complete(text) for text in ('A', 'An', '<B|C|Anna>')]",
    "book = AddressBook()\nfor word in <5*w>:\n    book.add(word, word + '@x.org')\n"
    "[book.meant(word) for word in ('<w>', '<w>s', 'x')]",
    "book = AddressBook()\nbook.add('a', 'a@x.org')\nbook.add('b', 'b@x.org')\n"
    "(book.label('a', 'red'), book.label('<a|b>', '<red|blue>'), book.remove('a'))",
    "book = AddressBook()\nbook.add('a', 'a@x.org')\nbook.label('<a|b>', '<w>')",
    "book = AddressBook()\nbook.add('<w>, <w>', 'a@x.org')\nbook.add('<w>', 'b@x.org')\nbook.export()",
    "book = AddressBook()\nbook.add('a', 'a@x.org')\n(book.load('id,name,mail\\n<a|b>,<w>,c@x.org\\n"
    "'), book.find('*'), book.export())",
    "book = AddressBook()\nbook.add('<w> <w>', 'aa@x.org')\nbook.add('<w>', 'b@x.org')\nfor key in book.find('*'):\n"
    "    book.label(key, 'red')\n(book.lines('red'), book.lines('blue'))",
)
