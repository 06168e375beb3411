"""What the quiz says, in English and in Spanish."""

PHRASES = {
    "en": {
        "predict": "Pause and predict: {text}",
        "ready": "(Enter goes on, q quits) ",
        "single": "one letter, q quits: ",
        "multiple": "all right letters, q quits: ",
        "numeric": "a number or an expression, q quits: ",
        "parts": "{names} as `name = number`, separated by commas, q quits: ",
        "free": "your answer, q quits: ",
        "code": "Complete this program. End with a line that holds only a dot; @file.py takes a file, q quits.",
        "agree": "Does yours agree? y or n: ",
        "right": "Right.",
        "wrong": "Not yet.",
        "answer": "The answer:",
        "missing": "{name}: {given:g} is not the whole gradient; the path {paths} is missing",
        "sign": "{name}: the size is right, the sign is not",
        "off": "{name}: {given:g} is not it",
        "absent": "{name}: no number was given for it",
        "extra": "{text} is not right",
        "lacking": "one that is right is missing",
        "unreadable": "this cannot be read as an answer: {text}",
        "late": "the program was stopped after {limit:g} seconds",
        "failed": "the program ended with an error: {text}",
        "kept": "Kept as the drill card {id}.",
        "score": "{right} of {asked} right.",
        "yes": "y",
    },
    "es": {
        "predict": "Pausa y predice: {text}",
        "ready": "(Intro para seguir, q para salir) ",
        "single": "una letra, q para salir: ",
        "multiple": "todas las letras correctas, q para salir: ",
        "numeric": "un número o una expresión, q para salir: ",
        "parts": "{names} como `nombre = número`, separados por comas, q para salir: ",
        "free": "tu respuesta, q para salir: ",
        "code": "Completa este programa. Termina con una línea que solo tenga un punto; @archivo.py lee un archivo, "
        "q para salir.",
        "agree": "¿Coincide la tuya? s o n: ",
        "right": "Correcto.",
        "wrong": "Todavía no.",
        "answer": "La respuesta:",
        "missing": "{name}: {given:g} no es el gradiente completo; falta el camino {paths}",
        "sign": "{name}: el tamaño es correcto, el signo no",
        "off": "{name}: {given:g} no es",
        "absent": "{name}: no has dado ningún número",
        "extra": "{text} no es correcto",
        "lacking": "falta una que es correcta",
        "unreadable": "esto no se puede leer como respuesta: {text}",
        "late": "el programa se detuvo tras {limit:g} segundos",
        "failed": "el programa terminó con un error: {text}",
        "kept": "Guardada como la tarjeta {id}.",
        "score": "{right} de {asked} correctas.",
        "yes": "s",
    },
}  # fmt: skip


def say(language: str, phrase: str, **parts: object) -> str:
    """A phrase with its parts filled in.

    >>> say("es", "score", right=2, asked=3)
    '2 de 3 correctas.'
    """
    return PHRASES[language][phrase].format(**parts)
