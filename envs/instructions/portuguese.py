"""Portuguese sentences and words."""

from rlvr.envs.instructions.language import FACTS, Language, by_fact, lines, words

PORTUGUESE = Language(
    code="pt",
    months=tuple("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro".split()),
    day="{day} de {month}",
    currency="euros",
    common=words(
        "o os as de do da dos das e em no na nos nas um uma que é por com para ao à às se não mais como nosso nossa "
        "nossos nossas são cada sem já há quem este esta isso muito quando você vocês seu sua seus pelo pela até todos "
        "a nós temos está"
    ),
    names={
        "en": "inglês",
        "de": "alemão",
        "fr": "francês",
        "es": "espanhol",
        "it": "italiano",
        "pt": "português",
    },
    events=lines("""
        a festa de verão
        a venda de livros
        o concerto do coro
        o café da manhã do bairro
        a oficina de bicicletas
        a exposição de fotos
        a noite de xadrez
        a visita aos jardins
        o curso de culinária
        a noite de cinema
        a tarde de leitura
        o teatro de marionetes
    """),
    forms=("um anúncio breve", "um aviso para o mural", "um e-mail aos vizinhos", "um texto para o nosso site"),
    labels=dict(zip(FACTS, "Data Hora Local Preço Contato Lugares Telefone".split(), strict=True)),
    sentences=by_fact("""
        A data é {0}.
        O encontro é em {0}.
        Em {0} abrimos as portas para todos os que têm vontade de vir.
        Começamos às {0}.
        As portas abrem às {0} e ninguém precisa ter pressa.
        Por favor venha às {0} para que possamos começar juntos e sem demora.
        O local é {0}.
        Você nos encontra no andar térreo: {0}.
        Desta vez o local onde todos nos reunimos é {0}.
        O ingresso custa {0}.
        Cada pessoa paga {0} na porta.
        Por {0} você tem um assento e uma bebida quente na pausa.
        {0} responde às perguntas.
        Para os detalhes fale com {0}.
        Se algo não estiver claro então {0} explica tudo com prazer.
        Há {0} lugares.
        Este ano temos espaço para {0} pessoas.
        Na sala cabem apenas {0} pessoas e é melhor chegar cedo.
        O nosso número é {0}.
        Ligue para nós no {0}.
        Para se inscrever basta ligar para o {0} em um dia útil.
    """),
    leads=lines("""
        Esperamos com alegria {0}.
        Está chegando {0}.
        Trata-se de um projeto para todo o bairro: {0}.
    """),
    fillers=lines("""
        Cada um é *bem-vindo*.
        Venha com os seus *amigos*.
        Haverá *música* até tarde.
        As crianças têm um *canto* só delas.
        O *pão* fresco vem da padaria do bairro.
        Há meses trabalhamos na *preparação*.
        Uma mão é sempre *útil* em um dia assim.
        Um *fotógrafo* do jornal local vem nos visitar.
        Não é preciso ter *experiência*.
        No ano passado o *tempo* foi bom conosco.
        Velhas *histórias* são contadas por quem estava lá.
        Os *convidados* calmos são tão queridos como os outros.
        Deixe o *carro* em casa e venha a pé.
        Na *pausa* servimos chá.
        Entre muitos o *trabalho* fica leve.
        Sob o *telhado* ficamos secos quando chove.
        Poucos dias são tão *alegres* como este.
        Bons *sapatos* são uma boa ideia.
        É fácil imaginar o *clima* da sala.
        Veja as *bandeiras* amarelas perto do portão.
        Guarde este dia na sua *agenda*.
        Três *prêmios* esperam pelos ganhadores.
        Os nossos *vizinhos* conhecem o caminho.
        O que há de *melhor* do que o tempo em boa companhia?
        Quem quer *ajudar* com as mesas?
        Você já perguntou à sua *família*?
    """),
    numbers=tuple("trinta quarenta cinquenta sessenta setenta oitenta noventa".split()),
    mottos=lines("""
        O nosso lema é “{0}”.
        Pense em “{0}” quando pensar em nós.
        Em cada cartaz você vê “{0}” em letras grandes.
        Entre nós dizemos só “{0}”.
    """),
    order=(
        ("Primeiro", "Primeiro montamos as mesas."),
        ("Depois", "Depois ouvimos uns aos outros."),
        ("Finalmente", "Finalmente arrumamos tudo juntos."),
    ),
    ours=words("nós nosso nossa nossos nossas conosco"),
    mine=words("eu me mim meu minha meus minhas"),
    yours=words("você vocês seu sua seus suas tu te ti teu tua"),
    greetings=("Caros vizinhos,", "Olá a todos,", "Bom dia,"),
    closings=("Um abraço", "Até logo", "Atenciosamente"),
    openers=("Boas notícias da nossa rua.", "Algo bonito está a caminho.", "Aqui está o que você esperava."),
    enders=("Esperamos por você com alegria.", "Por hoje é só.", "Venha nos visitar."),
    titles=("Notícias do bairro", "Um convite para todos", "Um dia para todos nós"),
    chat={
        "request": "Escreva {form} para {event}.",
        "facts": "O texto deve citar tudo isto:",
        "rules": "Siga também isto:",
        "changes": "Obrigado. Mudei de ideia sobre algumas coisas:",
        "add": "Mais um desejo: {new}",
        "replace": "Retiro este desejo: {old} Em seu lugar: {new}",
        "drop": "Retiro este desejo: {old}",
        "fact": "{label}: agora é {new} e não mais {old}. Não cite mais o dado antigo.",
        "fact_add": "Cite também isto: {label}: {new}.",
        "restore": "Errei ao retirar este desejo, ele vale de novo: {old}",
        "again": "Escreva o texto inteiro de novo. Todo o resto fica como estava.",
    },
)
