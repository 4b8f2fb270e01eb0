"""For each kind of instruction: its arguments, an English text that obeys it and one that does not."""

from __future__ import annotations

A = "Everybody is welcome. We meet at Villa Aurora. A ticket costs 5 euros."
TWO = "Everybody is welcome.\n\nWe meet at Villa Aurora. A ticket costs 5 euros."
THREE = "Come.\n\nWe meet at Villa Aurora.\n\nA ticket costs 5 euros and we serve tea."
FACTS = "It takes place on 14 June. We begin at 18:30. We meet at Villa Aurora. A ticket costs 5 euros."

# kind: (arguments, text that obeys, text that does not)
LENGTH = {
    "words_at_least": ((5,), "one two three four five", "one two three four"),
    "words_at_most": ((4,), "one two three four", "one two three four five"),
    "words_between": ((3, 4), "one two three", "one two three four five"),
    "sentences_exactly": ((3,), A, A + " Come."),
    "sentences_at_least": ((3,), A, "Everybody is welcome. Come."),
    "sentences_at_most": ((3,), A, A + " Come."),
    "characters_at_most": ((10,), "ten chars.", "eleven chars"),
    "long_sentences_banned": ((5,), A, "We meet all of us there."),
    "short_sentences_banned": ((3,), A, A + " Do come."),
    "first_sentence_shortest": ((), A, "A ticket costs 5 euros. Come along."),
    "lengths_differ": ((), "Come. We meet. We meet here.", "We meet. They meet."),
    "last_sentence_length": ((2,), "Everybody is welcome. Do come.", A),
}
PARAGRAPHS = {
    "paragraphs_exactly": ((3,), THREE, TWO),
    "sentences_of_paragraphs": ((2,), "One. Two.\n\nThree. Four.", "One. Two.\n\nThree."),
    "first_paragraph_one_sentence": ((), TWO, "One. Two.\n\nThree."),
    "last_paragraph_one_sentence": ((), THREE, TWO),
    "star_dividers": ((2,), "One.\n\n***\n\nTwo.", "One.\n\n***\n\nTwo.\n\n***\n\nThree."),
    "numbered_paragraphs": ((), "(1) One.\n\n(2) Two.", "(1) One.\n\nTwo."),
    "growing_paragraphs": ((), THREE, "Come along.\n\nCome.\n\nCome along, all of you."),
    "paragraph_begins": ((2, "We"), THREE, "We come.\n\nA ticket."),
    "one_line": ((), A, TWO),
    "sentence_a_line": ((), A.replace(". ", ".\n"), TWO),
}
STRUCTURE = {
    "title_in_brackets": ((), f"<<Our day>>\n\n{A}", f"<Our day>\n\n{A}"),
    "title_with_hash": ((), f"# Our day\n\n{A}", f"#Our day\n\n{A}"),
    "title_in_capitals": ((), f"OUR DAY\n\n{A}", f"Our DAY\n\n{A}"),
    "title_underlined": ((), f"Our day\n=======\n\n{A}", f"Our day\n======\n\n{A}"),
    "title_words": ((), f"Our Day\n\n{A}", f"Our day\n\n{A}"),
    "bullets_with_dashes": ((2,), "Bring:\n- A cup.\n- A friend.", "Bring:\n- A cup.\n- A friend.\n- Time."),
    "bullets_with_stars": ((2,), "Bring:\n* A cup.\n* A friend.", "Bring:\n- A cup.\n- A friend."),
    "numbered_list": ((2,), "Bring:\n1. A cup.\n2. A friend.", "Bring:\n1. A cup.\n3. A friend."),
    "table_of_facts": (
        (),
        "\n".join(
            f"| x | {value} |" for value in ("14 June", "18:30", "Villa Aurora", "5 euros", "Marta", "40", "0471 2290")
        ),
        "| Date | 14 June |\n| Time | 18:30 |",
    ),
    "sections": ((2,), "## One\n\nCome.\n\n## Two\n\nCome along.", "## One\n\nCome."),
    "rule_before_last": ((), "One.\n\n---\n\nTwo.", "One.\n\nTwo.\n\n---"),
    "postscript": ((), f"{A}\nPS: Bring tea.", f"PS: Bring tea.\n{A}"),
    "bold_parts": ((2,), "**One** and **two**.", "**One** and two**."),
    "italic_parts": ((1,), "An _open_ door.", "An open_door_policy."),
    "bold_fact": (("venue", "Place"), "We meet at **Villa Aurora**.", "We **meet at Villa Aurora**."),
}
WHOLE = {
    "json_text": ((), '{"text": "Come along."}', '{"text": "Come along.", "more": 1}'),
    "json_title_and_text": ((), '{"title": "Day", "text": "Come."}', '{"title": "", "text": "Come."}'),
    "code_fence": ((), "```\nCome.\n```", "```\nCome.\n``` Bye."),
    "note_tags": ((), "<note>Come.</note>", "<note>Come.<note>"),
    "whole_in_quotes": ((), '"Come along."', '"Come" along.'),
    "square_brackets": ((), "[[Come along.]]", "[Come along.]"),
    "quoted_lines": ((), "> Come.\n>\n> Along.", "> Come.\n\n> Along."),
    "html_paragraphs": ((), "<p>Come.</p>\n<p>Along.</p>", "<p>Come.</p> Along."),
    "line_width": ((12,), "Come along.\nAll of you.", "Come along, all of you."),
    "end_mark": ((), f"{A}\n~~~", f"{A} ~~~"),
    "subject_line": (("Subject:",), f"Subject: Our day\n\n{A}", f"Subject:\n\n{A}"),
}
EDGES = {
    "first_word": (("Everybody",), A, f"Hello. {A}"),
    "last_word": (("euros",), A, f"{A} Bye."),
    "begin_with": (("Everybody is welcome.",), A, f"Hello. {A}"),
    "end_with": (("Do come along.",), f"{A} Do come along.", f"{A} Do come along. Bye."),
    "first_is_question": ((), f"Who knows? {A}", f"{A} Who knows?"),
    "last_is_question": ((), f"{A} Who knows?", f"Who knows? {A}"),
    "last_is_exclamation": ((), f"{A} Come!", f"Come! {A}"),
    "greeting_line": (("Dear neighbours,",), f"Dear neighbours,\n\n{A}", f"Dear neighbours, {A}"),
    "closing_line": (("Best wishes",), f"{A}\n\nBest wishes", f"{A} Best wishes"),
    "signed": (("Hugo",), f"{A}\n\nHugo", f"{A}\n\nYours, Hugo"),
    "first_sentence_again": ((), f"{A} Everybody is welcome.", f"{A} Everybody is late."),
    "date_line": ((), f"14 June\n\n{A}", f"On 14 June\n\n{A}"),
}
STARTS = {
    "starts_differ": ((), A, f"{A} We serve tea."),
    "neighbours_start_differently": ((), f"{A} We serve tea.", "We come. We go."),
    "first_initials": (("E", "W", "A"), A, f"Hello. {A}"),
    "initial_banned": (("B",), A, f"{A} But come."),
    "initials_differ": ((), A, f"{A} Each counts."),
    "refrain": (("Do come.", 2), "Do come. We meet. Do come.", "Do come. Do come. We meet."),
    "steps_in_order": (("First", "Then", "Finally"), "First one. Then two. Finally three.", "Then one. First two."),
    "nth_sentence_begins": ((2, "We"), A, f"Hello. {A}"),
    "paragraphs_end_alike": (("Do come.",), "One. Do come.\n\nTwo. Do come.", "One. Do come.\n\nTwo."),
}
WORDS = {
    "word_included": (("music",), "There is music.", "There are musicians."),
    "two_words_included": (("music", "tea"), "Music and tea.", "Music and team."),
    "word_at_least": (("tea", 2), "Tea and more tea.", "Tea and a team."),
    "word_exactly": (("tea", 2), "Tea and more tea.", "Tea, tea and tea."),
    "word_banned": (("tea",), "The team comes.", "Tea for all."),
    "three_words_banned": (("tea", "milk", "rum"), "Water for all.", "Rum for all."),
    "word_in_first_sentence": (("tea",), "Tea first. Then we talk.", "We talk. Then tea."),
    "word_in_last_sentence": (("tea",), "We talk. Then tea.", "Tea first. Then we talk."),
    "word_before_word": (("tea", "milk"), "Tea and milk.", "Milk and tea."),
    "words_once": (("tea", "milk", "rum"), "Tea, milk and rum.", "Tea, milk, rum and tea."),
    "this_word_not_that": (("tea", "milk"), "Tea for all.", "Tea and milk."),
    "quoted_word": (("tea",), "We say “tea” to it.", "We say tea to it."),
}
LETTERS = {
    "letter_at_least": (("e", 4), "Everyone eats.", "Every one."),
    "letter_at_most": (("e", 3), "Every one.", "Everyone eats."),
    "letter_banned": (("z",), "We come.", "A zoo."),
    "initials_at_least": (("t", 2), "The tea.", "The milk."),
    "word_initial_banned": (("t",), "We eat.", "We eat Toast."),
    "long_word": ((8,), "Everybody comes.", "Every one comes."),
    "long_words_banned": ((5,), "We meet here.", "Everybody comes."),
    "vowel_first": ((), "Everybody comes.", "We come."),
    "double_letters": ((2,), "Good food.", "Good bread."),
    "last_letter": (("s",), A, f"{A} Come."),
}
CASE = {
    "all_small": ((), "we meet at 18:30.", "We meet."),
    "all_capitals": ((), "WE MEET AT 18:30.", "WE MEET at."),
    "capital_words_at_least": ((2,), "WE MEET AT 5.", "I MEET you."),
    "capital_words_exactly": ((2,), "WE MEET at 5.", "WE MEET AT 5."),
    "word_in_capitals": (("tea",), "TEA and more TEA.", "TEA and more tea."),
    "first_words_in_capitals": ((), "WE meet. A ticket.", "WE meet. They come."),
    "first_sentence_in_capitals": ((), "WE MEET. Do come.", "WE MEET. DO COME."),
    "last_sentence_in_capitals": ((), "We meet. DO COME.", "WE MEET. DO COME."),
    "venue_in_capitals": (("Villa Aurora",), "At VILLA AURORA.", "At VILLA AURORA, our Villa Aurora."),
    "contact_in_capitals": (("Marta",), "Ask MARTA.", "Ask Marta."),
}
PUNCTUATION = {
    "no_commas": ((), A, "Well, come."),
    "commas_exactly": ((2,), "Tea, milk, rum.", "Tea, milk."),
    "all_exclaim": ((), "Come! Stay!", "Come! Stay."),
    "questions_exactly": ((1,), "Who? We.", "Who? Why?"),
    "exclamations_exactly": ((1,), "Come! Stay.", "Come. Stay."),
    "one_semicolon": ((), "We meet; then we eat.", "We meet; we eat; we go."),
    "one_dash": ((), "We meet – then we eat.", "We meet-and-eat."),
    "one_bracket": ((), "We meet (all of us).", "We (all) meet (here)."),
    "quotes_exactly": ((2,), "“One” and “two”.", "“One” and two."),
    "ends_open": ((), "And so on...", "And so on....."),
    "no_full_stops": ((), "Come! Stay!", "Come! Stay."),
}
LANGUAGE = {
    "reply_language": (("en", "English"), A, "Wir freuen uns auf das Fest und auf euch."),
    "ours_at_least": ((2,), "We bring our tea.", "We bring tea."),
    "no_ours": ((), "You bring tea.", "You bring us tea."),
    "no_yours": ((), "We bring tea.", "We bring your tea."),
    "foreign_greeting": (("Guten Morgen,",), f"Guten Morgen,\n\n{A}", f"Good morning,\n\n{A}"),
    "foreign_closing": (("Bis bald",), f"{A}\n\nBis bald", f"{A}\n\nSee you soon"),
    "foreign_sentence": (("Algo bonito está en camino.",), f"{A} Algo bonito está en camino.", A),
    "foreign_word": (("Brot",), "Our motto is “Brot”.", "Our motto is Brot."),
}
FACTS_GIVEN = {
    "date_in_figures": ((), "It is on 14/06 at noon.", "It is on 14/06, in June."),
    "time_with_h": ((), "At 18h30.", "At 18h30, that is 18:30."),
    "price_with_sign": ((), "It costs 5 €.", "It costs 5 € (five euros)."),
    "seats_in_words": ((), "There are forty seats.", "There are forty (40) seats."),
    "quoted_venue": (("Villa Aurora",), "We meet at “Villa Aurora”.", "“We meet” at Villa Aurora."),
    "fact_before_fact": (("date", "venue", "Date", "Place"), FACTS, "At Villa Aurora on 14 June."),
    "facts_in_order": (("Time, Date", "time", "date"), "At 18:30 on 14 June.", FACTS),
    "fact_in_first_sentence": (("date", "Date"), FACTS, f"Come. {FACTS}"),
    "fact_in_last_sentence": (("price", "Price"), FACTS, f"{FACTS} Come."),
    "contact_times": (("Marta", 2), "Marta knows. Ask Marta.", "Marta knows."),
    "facts_on_lines": (
        ("",),
        "Date: 14 June\nTime: 18:30\nPlace: Villa Aurora\nPrice: 5 euros\nContact: Marta\nSeats: 40\nPhone: 0471 2290",
        FACTS,
    ),
    "facts_in_first_paragraph": (
        (),
        f"{FACTS} Ask Marta for one of 40 seats, 0471 2290.\n\nCome along.",
        f"{FACTS} Ask Marta for one of 40 seats, 0471 2290.\n\nAsk Marta.",
    ),
    "facts_in_last_paragraph": (
        (),
        f"Come along.\n\n{FACTS} Ask Marta for one of 40 seats, 0471 2290.",
        f"Ask Marta.\n\n{FACTS} Ask Marta for one of 40 seats, 0471 2290.",
    ),
}
TEXTS = (
    LENGTH | PARAGRAPHS | STRUCTURE | WHOLE | EDGES | STARTS | WORDS | LETTERS | CASE | PUNCTUATION | LANGUAGE
    | FACTS_GIVEN
)  # fmt: skip
