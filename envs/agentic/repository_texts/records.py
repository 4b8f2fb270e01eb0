"""Lines of comma-separated fields, with quotes."""


def split_fields(line: str, separator: str) -> list[str]:
    """The fields of a line. A field in double quotes may hold the separator; two quotes in it are one.

    ValueError if a quote is not closed.
    """
    fields: list[str] = []
    current: list[str] = []
    quoted, index = False, 0
    while index < len(line):
        sign = line[index]
        if quoted:
            if sign == '"' and line[index + 1 : index + 2] == '"':
                current.append('"')
                index += 1
            elif sign == '"':
                quoted = False
            else:
                current.append(sign)
        elif sign == '"' and not current:
            quoted = True
        elif sign == separator:
            fields.append("".join(current))
            current = []
        else:
            current.append(sign)
        index += 1
    if quoted:
        raise ValueError("a quote is not closed")
    fields.append("".join(current))
    return fields


def join_fields(fields: list[str], separator: str) -> str:
    """A line from which split_fields reads the same fields; quotes stand only where they are needed."""
    written = []
    for field in fields:
        if separator in field or '"' in field:
            written.append('"' + field.replace('"', '""') + '"')
        else:
            written.append(field)
    return separator.join(written)


def read_records(text: str) -> list[dict[str, str]]:
    """Records by the names of the first line; empty lines and lines that begin with # do not count.

    ValueError if a line has another number of fields than the first.
    """
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not lines:
        return []
    names = [name.strip() for name in split_fields(lines[0], ",")]
    records = []
    for line in lines[1:]:
        fields = split_fields(line, ",")
        if len(fields) != len(names):
            raise ValueError(f"expected {len(names)} fields, not {len(fields)}")
        records.append({name: field.strip() for name, field in zip(names, fields, strict=True)})
    return records


def write_records(records: list[dict[str, str]], names: list[str]) -> str:
    """The text of records, with these columns in this order; a missing field is empty."""
    lines = [join_fields(names, ",")]
    for record in records:
        lines.append(join_fields([record.get(name, "") for name in names], ","))
    return "\n".join(lines) + "\n"


def merge_records(old: list[dict[str, str]], new: list[dict[str, str]], key: str) -> list[dict[str, str]]:
    """The old records, each updated by the new one of the same key; new keys come at the end. Neither is changed."""
    merged = {record[key]: dict(record) for record in old}
    for record in new:
        merged.setdefault(record[key], {}).update(record)
    return list(merged.values())


MODULE = ("records", "delimited", "field_lines")
ALIASES = {
    "split_fields": ("parse_line",),
    "join_fields": ("format_line",),
    "read_records": ("parse_records", "load_records"),
    "write_records": ("dump_records",),
    "merge_records": ("updated_records",),
}
SCENARIOS = (
    "split_fields('<w>,<w>,,<w>', ',')",
    "split_fields('<w>;\"<w>;<w>\";<w>', ';')",
    'split_fields(\'"<w> ""<w>""",<w>\', \',\')',
    "split_fields('<w>,\"<w>', ',')",
    "split_fields('<w>\"<w>,,', ',')",
    "join_fields(<3*w> + ['<w>,<w>', 'say \"<w>\"', ''], ',')",
    "split_fields(join_fields(['a,b', '\"', '<w>', ''], ','), ',')",
    "read_records('name, size\\n<w>,<1..9>\\n\\n# <w>\\n<w>, <1..9>\\n')",
    "read_records('a,b\\n<w>,<w>\\n<w><|,1|,1,2>\\n')",
    "read_records('<# x|>')",
    "write_records([{'a': '<w>', 'b': '<1..9>'}, {'b': '<w>,<w>'}], ['<a|b>', 'b', 'a'])",
    "merge_records([{'id': '1', 'v': '<w>'}, {'id': '2', 'v': '<w>'}],"
    " [{'id': '<1|2|3>', 'v': '<w>'}, {'id': '4', 'u': '<w>'}], 'id')",
    "rows = [{'id': '1', 'v': '<w>'}]\nmerge_records(rows, [{'id': '1', 'v': '<w>', 'u': 'x'}], 'id')\nrows",
)
