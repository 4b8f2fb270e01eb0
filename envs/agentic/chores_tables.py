"""Chores with tables, JSON and logs."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter, defaultdict

from rlvr.envs.agentic.chores import PEOPLE, WORDS, Chore, file_names, lines


def sum_column(rng: random.Random) -> Chore:
    rows = [(rng.choice(WORDS), rng.randint(1, 99)) for _ in range(rng.randint(10, 40))]
    text = "Each line of bill.txt has a thing and its price in euros. Write what they cost together to sum.txt."
    command = "awk '{s += $2} END {print s}' bill.txt > sum.txt"
    wanted = {"sum.txt": lines([str(sum(price for _, price in rows))])}
    return Chore(text, {"bill.txt": lines([f"{a} {b}" for a, b in rows])}, (command, "cat sum.txt"), wanted)  # type: ignore[arg-type]


def active_members(rng: random.Random) -> Chore:
    people = rng.sample(PEOPLE, 9)
    key = rng.choice(("active", "paid", "adult"))
    members = [{"name": person, key: rng.random() < 0.5, "age": rng.randint(18, 90)} for person in people]
    members[rng.randrange(9)][key] = True
    text = (
        f"members.json is a list of objects. Write the names of those where {key} is true to names.txt, one per line, "
        "in the order of the list."
    )
    script = f"import json; [print(m['name']) for m in json.load(open('members.json')) if m['{key}']]"
    wanted = [str(member["name"]) for member in members if member[key]]
    return Chore(
        text, {"members.json": f"{json.dumps(members, indent=1)}\n".encode()},
        (f'python3 -c "{script}" > names.txt', "cat names.txt"), {"names.txt": lines(wanted)},
    )  # fmt: skip


def quoted_titles(rng: random.Random) -> Chore:
    books = [(f"{a}, {b} and {c}" if rng.random() < 0.6 else a, rng.choice(PEOPLE), rng.randint(1900, 2020))
             for a, b, c in (rng.sample(WORDS, 3) for _ in range(rng.randint(8, 15)))]  # fmt: skip
    plain = io.StringIO()
    csv.writer(plain, lineterminator="\n").writerows([("title", "author", "year"), *books])
    text = (
        "books.csv has a heading and titles with commas in them, which stand in quotation marks. Write only the "
        "titles, without quotation marks, to titles.txt, one per line, in their order."
    )
    script = "import csv; [print(r['title']) for r in csv.DictReader(open('books.csv'))]"
    return Chore(
        text, {"books.csv": plain.getvalue().encode()},
        ("head -n 4 books.csv", f'python3 -c "{script}" > titles.txt', "cat titles.txt"),
        {"titles.txt": lines([book[0] for book in books])},
    )  # fmt: skip


def count_statuses(rng: random.Random) -> Chore:
    statuses = rng.sample(("200", "301", "403", "404", "500", "503"), 4)
    rows = [f"GET /{rng.choice(WORDS)}/{rng.choice(WORDS)} {rng.choice(statuses)}" for _ in range(rng.randint(30, 70))]
    counts = Counter(row.split()[2] for row in rows)
    text = (
        "The lines of access.log are requests such as 'GET /kelp/olive 200', with the status at the end. For each "
        "status write a line 'STATUS=COUNT' to statuses.txt, the lowest status first."
    )
    command = "awk '{n[$3]++} END {for (s in n) print s \"=\" n[s]}' access.log | sort > statuses.txt"
    wanted = [f"{status}={counts[status]}" for status in sorted(counts)]
    return Chore(text, {"access.log": lines(rows)}, (command, "cat statuses.txt"), {"statuses.txt": lines(wanted)})


def split_by_service(rng: random.Random) -> Chore:
    services = rng.sample(WORDS, 4)
    rows = [
        f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d} {rng.choice(services)} {rng.choice(WORDS)}"
        for _ in range(rng.randint(20, 50))
    ]
    held = defaultdict(list)
    for row in rows:
        held[row.split()[1]].append(row)
    text = (
        "The second word of each line in all.log is the name of a service. Divide the log: make a folder logs, and in "
        "it for each service a file NAME.log with its lines, unchanged and in their order."
    )
    commands = ("mkdir logs", 'awk \'{print > ("logs/" $2 ".log")}\' all.log', "wc -l logs/*")
    wanted = {f"logs/{service}.log": lines(part) for service, part in held.items()}
    return Chore(text, {"all.log": lines(rows)}, commands, wanted)  # type: ignore[arg-type]


def json_to_csv(rng: random.Random) -> Chore:
    items = [
        {"stock": {"left": rng.randint(0, 90), "sold": rng.randint(0, 90)}, "name": word, "price": rng.randint(1, 99)}
        for word in rng.sample(WORDS, 8)
    ]
    part = rng.choice(("left", "sold"))
    text = (
        f"Turn items.json, a list of objects, into items.csv: first the heading 'name,price,{part}', then a line for "
        f"each object, in their order; {part} is in the object stock."
    )
    script = (
        f"import json; print('name,price,{part}'); [print(i['name'], i['price'], i['stock']['{part}'], sep=',') for i "
        "in json.load(open('items.json'))]"
    )
    wanted = [f"name,price,{part}", *(f"{i['name']},{i['price']},{i['stock'][part]}" for i in items)]  # type: ignore[index]
    return Chore(
        text, {"items.json": f"{json.dumps(items, indent=1)}\n".encode()},
        ("head -n 12 items.json", f'python3 -c "{script}" > items.csv', "cat items.csv"), {"items.csv": lines(wanted)},
    )  # fmt: skip


def csv_to_json(rng: random.Random) -> Chore:
    rows = [(person, rng.randint(18, 90), rng.choice(WORDS)) for person in rng.sample(PEOPLE, 7)]
    text = (
        "people.csv has the heading name,age,town. Make people.json of it: a JSON object whose keys are the names, and "
        "whose values are objects with the keys age (a number) and town (a string)."
    )
    script = (
        "import csv, json; json.dump({r['name']: {'age': int(r['age']), 'town': r['town']} for r in "
        "csv.DictReader(open('people.csv'))}, open('people.json', 'w'))"
    )
    return Chore(
        text, {"people.csv": lines(["name,age,town", *(f"{a},{b},{c}" for a, b, c in rows)])},
        (f'python3 -c "{script}"', "cat people.json; echo"), {},
        data={"people.json": {name: {"age": age, "town": town} for name, age, town in rows}},
    )  # fmt: skip


def edit_settings(rng: random.Random) -> Chore:
    before = {
        "server": {"host": rng.choice(WORDS), "port": rng.randint(2_000, 9_999)},
        "debug": True,
        "names": rng.sample(WORDS, 3),
        "level": rng.randint(1, 9),
    }
    port, gone = rng.randint(2_000, 9_999), rng.choice(("debug", "level"))
    after = {key: value for key, value in before.items() if key != gone}
    after["server"] = {**before["server"], "port": port}  # type: ignore[dict-item]
    text = (
        f"In config.json set the port of the server to {port} and take the key {gone} out. All else must stay, and the "
        "file must be JSON; how it is indented does not matter."
    )
    script = (
        f"import json; c = json.load(open('config.json')); c['server']['port'] = {port}; del c['{gone}']; json.dump(c, "
        "open('config.json', 'w'), indent=1)"
    )
    return Chore(
        text, {"config.json": f"{json.dumps(before, indent=1)}\n".encode()},
        ("cat config.json", f'python3 -c "{script}"', "cat config.json; echo"), {}, data={"config.json": after},
    )  # fmt: skip


def busiest_hour(rng: random.Random) -> Chore:
    hours = rng.sample(range(24), 6)
    counts = dict(zip(hours, rng.sample(range(2, 15), 6), strict=True))
    rows = [
        f"2026-01-{rng.randint(1, 9):02d} {hour:02d}:{rng.randint(0, 59):02d} {rng.choice(WORDS)}"
        for hour in hours
        for _ in range(counts[hour])
    ]
    rng.shuffle(rows)
    top = max(hours, key=lambda hour: counts[hour])
    text = (
        "Each line of visits.log has a day, a time of 24 hours and a page. In which hour, over all days, were there "
        "the most visits? Write it and their number to busiest.txt, such as '07 31'."
    )
    command = "cut -c12-13 visits.log | sort | uniq -c | sort -n | tail -n 1 | awk '{print $2, $1}' > busiest.txt"
    return Chore(
        text,
        {"visits.log": lines(rows)},
        ("head -n 3 visits.log", command, "cat busiest.txt"),
        {"busiest.txt": lines([f"{top:02d} {counts[top]}"])},
    )


def latest_records(rng: random.Random) -> Chore:
    ids = rng.sample(range(100, 999), 6)
    days = rng.sample(range(1, 366), 20)
    rows = [(rng.choice(ids), f"2026-{1 + day // 31:02d}-{1 + day % 31:02d}", rng.choice(WORDS)) for day in days]
    newest = {each: max(row for row in rows if row[0] == each) for each, *_ in rows}
    text = (
        "updates.csv has lines of number,date,value and several lines for some numbers. Keep for each number the line "
        "with the latest date, and write these lines to latest.csv, ordered by number."
    )
    command = "sort -t, -k1,1n -k2,2r updates.csv | awk -F, '!seen[$1]++' > latest.csv"
    table = lines([f"{a},{b},{c}" for a, b, c in rows])
    return Chore(
        text, {"updates.csv": table}, (command, "cat latest.csv"),
        {"latest.csv": lines(["{},{},{}".format(*newest[each]) for each in sorted(newest)])},
    )  # fmt: skip


def keep_ledger(rng: random.Random) -> Chore:
    people = sorted(rng.sample(PEOPLE, 4))
    start = {person: rng.randint(20, 90) for person in people}
    balance, rows = dict(start), []
    for _ in range(rng.randint(15, 30)):
        payer, payee = rng.sample(people, 2)
        amount = rng.randint(5, 60)
        rows.append(f"{payer} {payee} {amount}")
        if balance[payer] >= amount:
            balance[payer] -= amount
            balance[payee] += amount
    text = (
        "balances.txt has lines 'NAME AMOUNT'. payments.txt has lines 'PAYER PAYEE AMOUNT', to be carried out from top "
        "to bottom; a payment for which the payer has too little is left out. Write what everybody has in the end to "
        "final.txt, in the form and the order of balances.txt."
    )
    script = (
        "NR == FNR {b[$1] = $2; o[NR] = $1; n = NR; next} b[$1] >= $3 {b[$1] -= $3; b[$2] += $3} END {for (i = 1; i <= "
        "n; i++) print o[i], b[o[i]]}"
    )
    return Chore(
        text,
        {"balances.txt": lines([f"{a} {b}" for a, b in start.items()]), "payments.txt": lines(rows)},
        (f"awk '{script}' balances.txt payments.txt > final.txt", "cat final.txt"),
        {"final.txt": lines([f"{a} {b}" for a, b in balance.items()])},
    )


def time_online(rng: random.Random) -> Chore:
    people = sorted(rng.sample(PEOPLE, 4))
    since: dict[str, int] = {}
    minute, spent, rows = 0, dict.fromkeys(people, 0), []
    for _ in range(rng.randint(15, 30)):
        minute += rng.randint(1, 25)
        person = rng.choice(people)
        rows.append(f"{minute} {'out' if person in since else 'in'} {person}")
        if person in since:
            spent[person] += minute - since.pop(person)
        else:
            since[person] = minute
    for person in sorted(since):
        minute += rng.randint(1, 25)
        rows.append(f"{minute} out {person}")
        spent[person] += minute - since[person]
    text = (
        "door.log has lines 'MINUTE in NAME' and 'MINUTE out NAME'; everybody goes out in the end. Write a line 'NAME "
        "MINUTES' to inside.txt for each person in it: the time spent inside, over all visits, in alphabetical order "
        "of the names."
    )
    script = '$2 == "in" {s[$3] = $1} $2 == "out" {t[$3] += $1 - s[$3]} END {for (p in t) print p, t[p]}'
    wanted = [f"{person} {spent[person]}" for person in people if any(row.endswith(f" {person}") for row in rows)]
    return Chore(
        text,
        {"door.log": lines(rows)},
        (f"awk '{script}' door.log | LC_ALL=C sort > inside.txt", "cat inside.txt"),
        {"inside.txt": lines(wanted)},
    )


def pivot_table(rng: random.Random) -> Chore:
    towns, months = sorted(rng.sample(WORDS, 4)), ("jan", "feb", "mar")
    sales = {(town, month): rng.randint(1, 99) for town in towns for month in months}
    long = [f"{town},{month},{amount}" for (town, month), amount in sales.items()]
    rng.shuffle(long)
    text = (
        "sales.csv has a line town,month,amount for each town and each of the months jan, feb and mar, in no order. "
        "Write them as a table to wide.csv: the heading 'town,jan,feb,mar', then a line for each town, in alphabetical "
        "order."
    )
    script = '{a[$1, $2] = $3; t[$1]} END {for (i in t) print i, a[i, "jan"], a[i, "feb"], a[i, "mar"]}'
    commands = (
        "echo town,jan,feb,mar > wide.csv",
        f"awk -F, -v OFS=, '{script}' sales.csv | LC_ALL=C sort >> wide.csv",
        "cat wide.csv",
    )
    wide = [",".join([town, *(str(sales[town, month]) for month in months)]) for town in towns]
    return Chore(text, {"sales.csv": lines(long)}, commands, {"wide.csv": lines(["town,jan,feb,mar", *wide])})


def busy_networks(rng: random.Random) -> Chore:
    networks = [f"10.{rng.randint(0, 9)}.{number}" for number in rng.sample(range(200), 5)]
    counts = dict(zip(networks, rng.sample(range(1, 12), 5), strict=True))
    rows = [
        f"{network}.{rng.randint(1, 254)} {rng.choice(WORDS)}" for network in networks for _ in range(counts[network])
    ]
    rng.shuffle(rows)
    count = rng.randint(2, 3)
    text = (
        "Each line of hosts.log begins with an IPv4 address; its first three numbers are the network. Write the "
        f"{count} networks with the most lines, such as 10.2.30, to networks.txt, the busiest first."
    )
    command = (
        f"cut -d' ' -f1 hosts.log | cut -d. -f1-3 | sort | uniq -c | sort -nr | head -n {count} | awk '{{print $2}}' > "
        "networks.txt"
    )
    return Chore(
        text, {"hosts.log": lines(rows)}, (command, "cat networks.txt"),
        {"networks.txt": lines(sorted(networks, key=lambda network: -counts[network])[:count])},
    )  # fmt: skip


def write_script(rng: random.Random) -> Chore:
    """A program that is tried on a table that nobody saw."""
    word, name = rng.choice(WORDS), file_names(rng, 1)[0]
    bound = rng.randint(20, 60)

    def table() -> list[str]:
        return [f"{rng.choice((word, rng.choice(WORDS)))} {rng.randint(1, 99)}" for _ in range(rng.randint(10, 30))]

    def answer(rows: list[str]) -> int:
        return sum(int(row.split()[1]) > bound for row in rows if row.split()[0] == word)

    hidden = table()
    text = (
        f"Write a Python program {name}.py that reads table.txt, with lines 'WORD NUMBER', and prints how many lines "
        f"have the word {word} and a number above {bound}. It will be tried with other tables."
    )
    code = (
        f"rows = [row.split() for row in open('table.txt')]\nprint(sum(w == '{word}' and int(n) > {bound} for w, n in "
        "rows))"
    )
    return Chore(
        text, {"table.txt": lines(table())}, (f"cat > {name}.py <<'END'\n{code}\nEND", f"python3 {name}.py"), {},
        script=(f"{name}.py", "table.txt", lines(hidden), str(answer(hidden))),
    )  # fmt: skip
