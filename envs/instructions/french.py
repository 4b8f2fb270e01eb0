"""French sentences and words."""

from rlvr.envs.instructions.language import FACTS, Language, by_fact, lines, words

FRENCH = Language(
    code="fr",
    months=tuple("janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split()),
    day="{day} {month}",
    currency="euros",
    common=words(
        "le la les l de des du d un une et est en à au aux il elle nous vous que qu qui dans pour pas sur se s ce "
        "cette ne n plus par avec tout tous sont notre nos votre vos y on ou si sans être chaque même très chez"
    ),
    names={"en": "anglais", "de": "allemand", "fr": "français", "es": "espagnol", "it": "italien", "pt": "portugais"},
    events=lines("""
        la fête d'été
        la vente de livres
        le concert de la chorale
        le petit-déjeuner des voisins
        l'atelier de vélo
        l'exposition de photos
        la soirée d'échecs
        la visite des jardins
        le cours de cuisine
        la nuit du cinéma
        la soirée de lecture
        le théâtre de marionnettes
    """),
    forms=("une courte annonce", "une affiche", "un courriel aux voisins", "un billet pour notre site"),
    labels=dict(zip(FACTS, "Date Heure Lieu Prix Contact Places Téléphone".split(), strict=True)),
    sentences=by_fact("""
        La date est le {0}.
        Nous vous attendons le {0}.
        Le {0} nous ouvrons les portes à tous ceux qui ont envie de venir.
        Nous commençons à {0}.
        Les portes ouvrent à {0} et personne ne doit se presser.
        Merci de venir à {0} pour que nous puissions commencer ensemble sans attendre.
        Le lieu est {0}.
        Vous nous trouverez au rez-de-chaussée : {0}.
        Cette fois le lieu où nous nous retrouvons tous est {0}.
        Un billet coûte {0}.
        Chaque personne paie {0} à la porte.
        Pour {0} vous avez une place assise et une boisson chaude pendant la pause.
        {0} répond à vos questions.
        Pour les détails demandez à {0}.
        Si quelque chose n'est pas clair alors {0} vous aidera avec plaisir.
        Il y a {0} places.
        Nous avons de la place pour {0} personnes cette année.
        La salle ne peut recevoir que {0} personnes et il vaut mieux venir tôt.
        Notre numéro est le {0}.
        Vous pouvez nous joindre au {0}.
        Pour vous inscrire il suffit d'appeler le {0} en semaine.
    """),
    leads=lines("""
        Nous préparons {0}.
        Voici bientôt {0}.
        Il s'agit de vous parler d'un beau projet : {0}.
    """),
    fillers=lines("""
        Tout le monde est *bienvenu*.
        Venez avec vos *amis*.
        Il y aura de la *musique* jusque tard.
        Les enfants ont un *coin* pour eux.
        Le *pain* frais vient de la boulangerie du quartier.
        Depuis des mois nous travaillons à la *préparation*.
        Une aide est toujours *utile* un tel jour.
        Un *photographe* du journal local viendra nous voir.
        Aucune *expérience* n'est nécessaire.
        Cette année le *temps* sera peut-être doux.
        De vieilles *histoires* seront racontées par ceux qui étaient là.
        Les *invités* calmes nous sont aussi chers que les autres.
        Laissez la *voiture* à la maison et venez à pied.
        Pendant la *pause* nous servons du thé.
        À plusieurs le *travail* est léger.
        Sous le *toit* nous restons au sec quand il pleut.
        Peu de jours sont aussi *joyeux* que celui-ci.
        De bonnes *chaussures* sont une bonne idée.
        On voit déjà le *décor* de la salle.
        Regardez les *drapeaux* jaunes près de la porte.
        Gardez ce jour libre dans votre *agenda*.
        Trois *prix* attendent les gagnants.
        Nos *voisins* connaissent le chemin.
        Quoi de *mieux* que du temps en bonne compagnie ?
        Qui veut nous *aider* avec les tables ?
        Avez-vous déjà demandé à votre *famille* ?
    """),
    numbers=tuple("trente quarante cinquante soixante soixante-dix quatre-vingts quatre-vingt-dix".split()),
    mottos=lines("""
        Notre devise est “{0}”.
        Pensez à “{0}” quand vous pensez à nous.
        Sur chaque affiche vous verrez “{0}” en grand.
        Entre nous on dit juste “{0}”.
    """),
    order=(
        ("D'abord", "D'abord nous installons les tables."),
        ("Ensuite", "Ensuite nous nous écoutons."),
        ("Enfin", "Enfin nous rangeons tous ensemble."),
    ),
    ours=words("nous notre nos nôtre nôtres"),
    mine=words("je j me m moi mon ma mes"),
    yours=words("vous votre vos tu te toi ton ta tes"),
    greetings=("Chers voisins,", "Bonjour à tous,", "Chers amis,"),
    closings=("Bien à vous", "À bientôt", "Cordialement"),
    openers=(
        "De bonnes nouvelles de notre rue.",
        "Quelque chose de beau arrive.",
        "Voici ce que vous attendiez.",
    ),
    enders=("Nous nous réjouissons de vous voir.", "C'est tout pour aujourd'hui.", "Passez donc nous voir."),
    titles=("Nouvelles du quartier", "Une invitation pour tous", "Une journée pour nous tous"),
    chat={
        "request": "Écris {form} pour {event}.",
        "facts": "Tout cela doit y figurer :",
        "rules": "Respecte aussi ceci :",
        "changes": "Merci. J'ai changé d'avis sur certains points :",
        "add": "Encore un souhait : {new}",
        "replace": "Je retire ce souhait : {old} À la place : {new}",
        "drop": "Je retire ce souhait : {old}",
        "fact": "{label} : c'est maintenant {new} et non plus {old}. Ne cite plus l'ancienne indication.",
        "fact_add": "Cela doit aussi y figurer : {label} : {new}.",
        "restore": "J'ai eu tort de retirer ce souhait, il est de nouveau valable : {old}",
        "again": "Écris le texte entier de nouveau. Tout le reste ne change pas.",
    },
)
