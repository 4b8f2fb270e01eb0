"""Spanish sentences and words."""

from rlvr.envs.instructions.language import FACTS, Language, by_fact, lines, words

SPANISH = Language(
    code="es",
    months=tuple("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()),
    day="{day} de {month}",
    currency="euros",
    common=words(
        "el la los las de del y en un una que es por con para al lo se su nos nuestro nuestra nuestros nuestras como "
        "más no si todos todas hay son está cada pero sin ya a quien quienes esta este muy cuando tu tus puedes hasta"
    ),
    names={
        "en": "inglés",
        "de": "alemán",
        "fr": "francés",
        "es": "español",
        "it": "italiano",
        "pt": "portugués",
    },
    events=lines("""
        la fiesta de verano
        la venta de libros
        el concierto del coro
        el desayuno del barrio
        el taller de bicicletas
        la exposición de fotos
        la velada de ajedrez
        la visita a los jardines
        el curso de cocina
        la noche de cine
        la tarde de lectura
        el teatro de marionetas
    """),
    forms=("un anuncio breve", "un aviso para el tablón", "un correo a los vecinos", "una entrada para nuestra web"),
    labels=dict(zip(FACTS, "Fecha Hora Lugar Precio Contacto Plazas Teléfono".split(), strict=True)),
    sentences=by_fact("""
        La fecha es el {0}.
        Nos vemos el {0}.
        El {0} abrimos las puertas a todas las personas que quieran venir.
        Empezamos a las {0}.
        Las puertas se abren a las {0} y nadie tiene que correr.
        Por favor ven a las {0} para que podamos empezar juntos y sin esperar.
        El lugar es {0}.
        Nos encontrarás en la planta baja de {0}.
        Esta vez el lugar donde nos reunimos todos es {0}.
        La entrada cuesta {0}.
        Cada persona paga {0} en la puerta.
        Por {0} tienes un asiento y una bebida caliente en el descanso.
        {0} responde a las preguntas.
        Para los detalles pregunta a {0}.
        Si algo no está claro entonces {0} lo explica con mucho gusto.
        Hay {0} plazas.
        Este año tenemos sitio para {0} personas.
        En la sala solo caben {0} personas y es mejor llegar pronto.
        Nuestro número es el {0}.
        Puedes llamarnos al {0}.
        Para apuntarse basta con llamar al {0} en un día laborable.
    """),
    leads=lines("""
        Esperamos con ilusión {0}.
        Ya se acerca {0}.
        Se trata de un plan para todo el barrio: {0}.
    """),
    fillers=lines("""
        Todo el mundo es *bienvenido*.
        Ven con tus *amigos*.
        Habrá *música* hasta tarde.
        Los niños tienen un *rincón* para ellos.
        El *pan* fresco viene de la panadería del barrio.
        Desde hace meses trabajamos en la *preparación*.
        Una mano siempre es *útil* en un día así.
        Un *fotógrafo* del periódico local vendrá a vernos.
        No hace falta *experiencia*.
        El año pasado el *tiempo* fue bueno con nosotros.
        Viejas *historias* serán contadas por quienes estuvieron allí.
        Los *invitados* tranquilos son tan queridos como los otros.
        Deja el *coche* en casa y ven a pie.
        En el *descanso* servimos té.
        Entre muchos el *trabajo* es ligero.
        Bajo el *techo* estamos secos cuando llueve.
        Pocos días son tan *alegres* como este.
        Unos buenos *zapatos* son una buena idea.
        Es fácil imaginar el *ambiente* de la sala.
        Mira las *banderas* amarillas junto a la puerta.
        Guarda este día en tu *agenda*.
        Tres *premios* esperan a los ganadores.
        Nuestros *vecinos* conocen el camino.
        ¿Qué hay *mejor* que el tiempo en buena compañía?
        ¿Quién quiere *ayudar* con las mesas?
        ¿Has preguntado ya a tu *familia*?
    """),
    numbers=tuple("treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()),
    mottos=lines("""
        Nuestro lema es “{0}”.
        Piensa en “{0}” cuando pienses en nosotros.
        En cada cartel verás “{0}” en letras grandes.
        Entre nosotros decimos solo “{0}”.
    """),
    order=(
        ("Primero", "Primero ponemos las mesas."),
        ("Luego", "Luego nos escuchamos los unos a los otros."),
        ("Finalmente", "Finalmente recogemos todo entre todos."),
    ),
    ours=words("nosotros nosotras nos nuestro nuestra nuestros nuestras"),
    mine=words("yo me mi mis mí mío mía"),
    yours=words("tú tu tus te ti usted ustedes vosotros vosotras os vuestro vuestra"),
    greetings=("Queridos vecinos:", "Hola a todos:", "Buenos días:"),
    closings=("Un saludo", "Hasta pronto", "Saludos cordiales"),
    openers=("Buenas noticias de nuestra calle.", "Algo bonito está en camino.", "Aquí está lo que esperabas."),
    enders=("Te esperamos con ilusión.", "Eso es todo por hoy.", "Pásate a vernos."),
    titles=("Noticias del barrio", "Una invitación para todos", "Un día para todos nosotros"),
    chat={
        "request": "Escribe {form} para {event}.",
        "facts": "Tiene que mencionar todo esto:",
        "rules": "Respeta también esto:",
        "changes": "Gracias. He cambiado de idea en algunas cosas:",
        "add": "Un deseo más: {new}",
        "replace": "Retiro este deseo: {old} En su lugar: {new}",
        "drop": "Retiro este deseo: {old}",
        "fact": "{label}: ahora es {new} y ya no {old}. No menciones el dato antiguo.",
        "fact_add": "Menciona también esto: {label}: {new}.",
        "restore": "Hice mal en retirar este deseo, vuelve a valer: {old}",
        "again": "Escribe de nuevo el texto entero. Todo lo demás sigue igual.",
    },
)
