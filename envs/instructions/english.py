"""English sentences and words."""

from rlvr.envs.instructions.language import FACTS, Language, by_fact, lines, words

ENGLISH = Language(
    code="en",
    months=tuple("January February March April May June July August September October November December".split()),
    day="{day} {month}",
    currency="euros",
    common=words(
        "the and of to a in is it you that for on with as are at be this have from or by not but we our us your they "
        "will can who there when so if all has was no more than about up out an their which do please"
    ),
    names={"en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "pt": "Portuguese"},
    events=lines("""
        the summer fair
        the book sale
        the choir concert
        the neighbours' breakfast
        the bicycle workshop
        the photo exhibition
        the chess evening
        the garden tour
        the cooking course
        the film night
        the reading evening
        the puppet theatre
    """),
    forms=("a short announcement", "a notice for the board", "an e-mail to the neighbours", "a post for our website"),
    labels=dict(zip(FACTS, "Date Time Place Price Contact Seats Phone".split(), strict=True)),
    sentences=by_fact("""
        It takes place on {0}.
        The day to remember is {0}.
        On {0} we open the doors for everybody who would like to come along.
        We begin at {0}.
        The doors open at {0} and nobody has to hurry.
        Please come at {0} so that we can start together without any delay.
        We meet at {0}.
        You will find us at {0} on the ground floor.
        This time {0} is where we all come together.
        A ticket costs {0}.
        Each guest pays {0} at the entrance.
        For {0} you get a seat and a warm drink during the break.
        {0} answers your questions.
        Please ask {0} about the details.
        If anything is unclear then {0} will gladly explain it to you.
        There are {0} seats.
        We have room for {0} guests this year.
        Since only {0} guests fit into the room it helps to be early.
        Our number is {0}.
        You can reach us by phone at {0}.
        Whoever wants to sign up can call {0} on any weekday.
    """),
    leads=lines("""
        We are looking forward to {0}.
        It is almost time for {0}.
        This is about {0} and about everybody who would like to be there.
    """),
    fillers=lines("""
        Everybody is *welcome*.
        Bring your *friends*.
        There will be *music* until late.
        Children have a *corner* of their own.
        Fresh *bread* comes from the bakery next door.
        Some of us have been *planning* this for months.
        Helpers are always *useful* on such a day.
        A *photographer* from the local paper will visit us.
        You need no *experience* at all.
        Last year the *weather* was kind to us.
        Old *stories* will be shared by people who were there.
        Quiet *guests* are as dear to us as loud ones.
        Leave your *car* at home and come on foot.
        In the *break* we serve tea.
        Many hands make light *work*.
        Under the *roof* we stay dry when it rains.
        Very few days are as *cheerful* as this one.
        Good *shoes* are a good idea.
        Just *imagine* how the room will look.
        Look out for the yellow *flags* at the gate.
        Keep the day free in your *calendar*.
        Three *prizes* are waiting for lucky winners.
        Our *neighbours* know the way.
        What could be *better* than time in good company?
        Who would like to *help* us with the tables?
        Have you asked your *family* yet?
    """),
    numbers=tuple("thirty forty fifty sixty seventy eighty ninety".split()),
    mottos=lines("""
        Our motto is “{0}”.
        Remember “{0}” when you think of us.
        You will see “{0}” on every poster.
        Among ourselves we just say “{0}”.
    """),
    order=(
        ("First", "First we put up the tables."),
        ("Then", "Then we listen to one another."),
        ("Finally", "Finally we clear up together."),
    ),
    ours=words("we our us ours"),
    mine=words("i me my mine myself"),
    yours=words("you your yours yourself yourselves"),
    greetings=("Dear neighbours,", "Hello everybody,", "Good morning,"),
    closings=("Best wishes", "See you soon", "Kind regards"),
    openers=("Good news from our street.", "Something nice is on its way.", "Here is what you have been waiting for."),
    enders=("We look forward to seeing you.", "That is all for today.", "Do come along."),
    titles=("News from the neighbourhood", "An invitation to everybody", "A day for all of us"),
    chat={
        "request": "Please write {form} for {event}.",
        "facts": "It has to mention all of this:",
        "rules": "Please also keep to this:",
        "changes": "Thank you. I have changed my mind about some of this:",
        "add": "One more wish: {new}",
        "replace": "Take back this wish: {old} In its stead: {new}",
        "drop": "Take back this wish: {old}",
        "fact": "{label}: it is now {new}, no longer {old}. Do not mention the old one.",
        "fact_add": "Mention this too: {label}: {new}.",
        "restore": "I was wrong to take back this wish, it holds again: {old}",
        "again": "Please write the whole text again. All else stays as it was.",
    },
)
