"""German sentences and words."""

from rlvr.envs.instructions.language import FACTS, Language, by_fact, lines, words

GERMAN = Language(
    code="de",
    months=tuple("Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()),
    day="{day}. {month}",
    currency="Euro",
    common=words(
        "der die das und ist in zu den mit von für auf ein eine nicht es wir uns sie ihr euch sich dem des als auch "
        "an bei nach wie aus wenn so alle wird sind hat im am zum zur über um oder noch nur war bitte kann dass wer "
        "unsere unser jeder gibt eure alles"
    ),
    names={
        "en": "Englisch", "de": "Deutsch", "fr": "Französisch", "es": "Spanisch", "it": "Italienisch",
        "pt": "Portugiesisch",
    },
    events=lines("""
        das Sommerfest
        die Buchbörse
        das Chorkonzert
        das Nachbarschaftsfrühstück
        die Fahrradwerkstatt
        die Fotoausstellung
        die Schachrunde
        die Gartenführung
        die Kochstunde
        die Filmnacht
        die Lesestunde
        das Puppentheater
    """),
    forms=(
        "eine kurze Ankündigung", "einen Aushang", "eine E-Mail an die Nachbarn", "einen Beitrag für unsere Webseite",
    ),
    labels=dict(zip(FACTS, "Datum Uhrzeit Ort Preis Ansprechperson Plätze Telefon".split(), strict=True)),
    sentences=by_fact("""
        Termin ist der {0}.
        Wir treffen uns am {0}.
        Am {0} öffnen wir die Türen für alle und freuen uns über jeden Gast.
        Wir beginnen um {0} Uhr.
        Die Türen öffnen um {0} Uhr und niemand muss sich beeilen.
        Bitte kommt um {0} Uhr zu uns und bringt ein wenig Zeit für die anderen mit.
        Der Ort ist {0}.
        Ihr findet uns im Erdgeschoss: {0}.
        Diesmal heißt der Ort {0} und dort kommen wir alle zusammen.
        Der Eintritt kostet {0}.
        Jeder Gast zahlt am Eingang {0}.
        Für {0} gibt es einen Sitzplatz und in der Pause ein warmes Getränk.
        {0} beantwortet eure Fragen.
        Alles Weitere weiß {0}.
        Ist noch etwas unklar und eine Frage offen, so hilft euch {0} gern weiter.
        Es gibt {0} Plätze.
        Wir haben in diesem Jahr Platz für {0} Gäste.
        Nur {0} Gäste passen in den Raum und deshalb lohnt es sich zeitig da zu sein.
        Unsere Nummer ist {0}.
        Am Telefon erreicht ihr uns unter {0}.
        Zur Anmeldung reicht an jedem Werktag ein kurzer Anruf unter der Nummer {0}.
    """),
    leads=lines("""
        Wir freuen uns auf {0}.
        Bald beginnt {0}.
        Es geht um {0} und um alle, die gern dabei sind.
    """),
    fillers=lines("""
        Jeder ist *willkommen*.
        Bringt eure *Freunde* mit.
        Es gibt *Musik* bis in den Abend.
        Kinder haben eine eigene *Ecke*.
        Frisches *Brot* kommt von der Bäckerei nebenan.
        Einige von uns arbeiten seit Monaten an der *Planung*.
        Helfer sind an so einem Tag immer *nützlich*.
        Vom Lokalblatt kommt eine *Fotografin* zu Besuch.
        Ihr braucht keine *Erfahrung*.
        Letztes Jahr war das *Wetter* gut zu uns.
        Alte *Geschichten* werden von denen erzählt die dabei waren.
        Leise *Gäste* sind uns so lieb wie laute.
        Lasst das *Auto* zu Hause und kommt zu Fuß.
        In der *Pause* gibt es Tee.
        Viele Hände machen der *Arbeit* ein schnelles Ende.
        Unter dem *Dach* bleiben wir bei Regen trocken.
        Selten ist ein Tag so *fröhlich* wie dieser.
        Gute *Schuhe* sind eine gute Idee.
        Man kann sich die *Stimmung* gut vorstellen.
        Achtet auf die gelben *Fahnen* am Tor.
        Tragt den Tag in den *Kalender* ein.
        Drei *Preise* warten auf die Gewinner.
        Die *Nachbarn* kennen den Weg.
        Was ist *schöner* als Zeit in guter Gesellschaft?
        Wer möchte uns mit den Tischen *helfen*?
        Habt ihr schon eure *Familie* gefragt?
    """),
    numbers=tuple("dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()),
    mottos=lines("""
        Das Motto ist “{0}”.
        Denkt an “{0}” wenn ihr an uns denkt.
        Auf jedem Plakat steht “{0}” in großer Schrift.
        Unter uns sagen wir einfach “{0}” dazu.
    """),
    order=(
        ("Zuerst", "Zuerst stellen wir die Tische auf."),
        ("Danach", "Danach hören wir einander zu."),
        ("Schließlich", "Schließlich räumen wir alle zusammen auf."),
    ),
    ours=words("wir uns unser unsere unseren unserem unserer unseres"),
    mine=words("ich mich mir mein meine meinen meinem meiner"),
    yours=words("du dich dir dein deine ihr euch euer eure euren eurem eurer"),
    greetings=("Liebe Nachbarn,", "Hallo zusammen,", "Guten Morgen,"),
    closings=("Viele Grüße", "Bis bald", "Herzliche Grüße"),
    openers=("Gute Nachrichten aus unserer Straße.", "Etwas Schönes ist auf dem Weg.", "Darauf habt ihr gewartet."),
    enders=("Wir freuen uns auf euch.", "Das ist alles für heute.", "Kommt doch vorbei."),
    titles=("Neues aus der Nachbarschaft", "Eine Einladung für alle", "Ein Tag für uns alle"),
    chat={
        "request": "Bitte schreibe {form} für {event}.",
        "facts": "Das alles muss darin vorkommen:",
        "rules": "Halte dich bitte auch daran:",
        "changes": "Danke. Einiges möchte ich nun doch anders:",
        "add": "Noch ein Wunsch: {new}",
        "replace": "Diesen Wunsch nehme ich zurück: {old} Stattdessen: {new}",
        "drop": "Diesen Wunsch nehme ich zurück: {old}",
        "fact": "{label}: jetzt {new}, nicht mehr {old}. Das Alte soll nicht mehr vorkommen.",
        "fact_add": "Auch das soll vorkommen: {label}: {new}.",
        "restore": "Diesen Wunsch hätte ich nicht zurücknehmen sollen, er gilt wieder: {old}",
        "again": "Bitte schreibe den ganzen Text noch einmal. Alles andere bleibt, wie es war.",
    },
)  # fmt: skip
