"""Italian sentences and words."""

from rlvr.envs.instructions.language import FACTS, Language, by_fact, lines, words

ITALIAN = Language(
    code="it",
    months=tuple(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre".split()
    ),
    day="{day} {month}",
    currency="euro",
    common=words(
        "il lo la i gli le di del della dei delle dell e è un una che in per con al alla alle ai da dal si ci non sono "
        "più come nostro nostra nostri nostre vi vostra vostro vostri a chi c nel nella nei tutti tutte ogni anche se "
        "su quando sul l d molto questo questa così"
    ),
    names={
        "en": "inglese",
        "de": "tedesco",
        "fr": "francese",
        "es": "spagnolo",
        "it": "italiano",
        "pt": "portoghese",
    },
    events=lines("""
        la festa d'estate
        la vendita di libri
        il concerto del coro
        la colazione di quartiere
        il laboratorio di biciclette
        la mostra di fotografie
        la serata di scacchi
        la visita ai giardini
        il corso di cucina
        la notte del cinema
        la serata di lettura
        il teatro delle marionette
    """),
    forms=("un breve annuncio", "un avviso per la bacheca", "una mail ai vicini", "un articolo per il nostro sito"),
    labels=dict(zip(FACTS, "Data Ora Luogo Prezzo Contatto Posti Telefono".split(), strict=True)),
    sentences=by_fact("""
        La data è il {0}.
        Ci vediamo il {0}.
        Il {0} apriamo le porte a tutti quelli che hanno voglia di venire.
        Si comincia alle {0}.
        Le porte aprono alle {0} e nessuno deve correre.
        Per favore venite alle {0} in modo da cominciare insieme e senza attese.
        Il luogo è {0}.
        Ci trovate al piano terra di {0}.
        Questa volta il luogo dove ci troviamo tutti è {0}.
        Un biglietto costa {0}.
        Ogni persona paga {0} alla porta.
        Per {0} avete un posto a sedere e una bevanda calda durante la pausa.
        {0} risponde alle domande.
        Per i dettagli chiedete a {0}.
        Se qualcosa non è chiaro allora {0} ve lo spiega volentieri.
        Ci sono {0} posti.
        Quest'anno abbiamo posto per {0} persone.
        Nella sala entrano solo {0} persone e conviene arrivare presto.
        Il nostro numero è {0}.
        Potete chiamarci al {0}.
        Per iscriversi basta chiamare il {0} in un giorno feriale.
    """),
    leads=lines("""
        Aspettiamo con gioia {0}.
        Si avvicina {0}.
        Si tratta di un progetto per tutto il quartiere: {0}.
    """),
    fillers=lines("""
        Ognuno è il *benvenuto*.
        Venite con i vostri *amici*.
        Ci sarà *musica* fino a tardi.
        I bambini hanno un *angolo* per loro.
        Il *pane* fresco arriva dal forno del quartiere.
        Da mesi lavoriamo alla *preparazione*.
        Una mano è sempre *utile* in un giorno così.
        Un *fotografo* del giornale locale verrà a trovarci.
        Non serve nessuna *esperienza*.
        L'anno scorso il *tempo* è stato buono con noi.
        Vecchie *storie* saranno narrate da chi era presente.
        Gli *ospiti* tranquilli ci sono cari come gli altri.
        Lasciate la *macchina* a casa e venite a piedi.
        Nella *pausa* serviamo il tè.
        In tanti il *lavoro* è leggero.
        Sotto il *tetto* restiamo asciutti quando piove.
        Pochi giorni sono così *allegri* come questo.
        Delle buone *scarpe* sono una buona idea.
        È facile immaginare l'*atmosfera* della sala.
        Guardate le *bandiere* gialle vicino alla porta.
        Segnate il giorno nella vostra *agenda*.
        Tre *premi* aspettano i vincitori.
        I nostri *vicini* sanno la strada.
        Che cosa c'è di *meglio* del tempo in buona compagnia?
        Chi vuole *aiutare* con i tavoli?
        Avete già chiesto alla vostra *famiglia*?
    """),
    numbers=tuple("trenta quaranta cinquanta sessanta settanta ottanta novanta".split()),
    mottos=lines("""
        Il nostro motto è “{0}”.
        Pensate a “{0}” quando pensate a noi.
        Su ogni manifesto si legge “{0}” in grande.
        Tra di noi diciamo solo “{0}”.
    """),
    order=(
        ("Prima", "Prima sistemiamo i tavoli."),
        ("Poi", "Poi ci ascoltiamo a vicenda."),
        ("Infine", "Infine mettiamo tutti in ordine."),
    ),
    ours=words("noi nostro nostra nostri nostre"),
    mine=words("io mi me mio mia miei mie"),
    yours=words("voi vi vostro vostra vostri vostre tu ti te tuo tua"),
    greetings=("Cari vicini,", "Ciao a tutti,", "Buongiorno,"),
    closings=("Un saluto", "A presto", "Cordiali saluti"),
    openers=(
        "Buone notizie dalla nostra strada.",
        "Qualcosa di bello sta arrivando.",
        "Ecco quello che aspettavate.",
    ),
    enders=("Vi aspettiamo con gioia.", "Per oggi è tutto.", "Passate a trovarci."),
    titles=("Notizie dal quartiere", "Un invito per tutti", "Un giorno per tutti noi"),
    chat={
        "request": "Scrivi {form} per {event}.",
        "facts": "Deve contenere tutto questo:",
        "rules": "Rispetta anche questo:",
        "changes": "Grazie. Su alcune cose ho cambiato idea:",
        "add": "Ancora un desiderio: {new}",
        "replace": "Ritiro questo desiderio: {old} Al suo posto: {new}",
        "drop": "Ritiro questo desiderio: {old}",
        "fact": "{label}: ora è {new} e non più {old}. Non citare più il dato vecchio.",
        "fact_add": "Cita anche questo: {label}: {new}.",
        "restore": "Ho sbagliato a ritirare questo desiderio, vale di nuovo: {old}",
        "again": "Scrivi di nuovo il testo intero. Tutto il resto rimane com'era.",
    },
)
