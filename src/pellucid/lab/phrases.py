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
        "code": "Complete this program. Type it, and end with a line that holds only a dot; or give a file with "
        "@file.py (@ alone writes this beginning to {id}.py). q quits.",
        "written": "{text} is written: complete it, then type @{text}",
        "unwritten": "{text} cannot be written: {why}",
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
        "long": "this is too long: at most {most:,} characters are read, not {given:,}",
        "unopened": "{text} is no file of text in UTF-8 that can be read",
        "late": "the program was stopped after {limit:g} seconds",
        "failed": "the program failed: {text}",
        "line": "{text} (line {line})",
        "ended": "it ended the process with status {status}",
        "kept": "Kept as the drill card {id}.",
        "score": "{right} of {asked} right.",
        "offer": "With --cards, what you miss is kept as drill cards.",
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
        "code": "Completa este programa. Escríbelo, y termina con una línea que solo tenga un punto; o da un archivo "
        "con @archivo.py (@ a solas guarda este comienzo en {id}.py). q para salir.",
        "written": "{text} está guardado: complétalo y escribe @{text}",
        "unwritten": "{text} no se puede guardar: {why}",
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
        "long": "esto es demasiado largo: se leen como mucho {most} caracteres, no {given}",
        "unopened": "{text} no es un archivo de texto UTF-8 que se pueda leer",
        "late": "el programa se detuvo tras {limit:g} segundos",
        "failed": "el programa falló: {text}",
        "line": "{text} (línea {line})",
        "ended": "terminó el proceso con el estado {status}",
        "kept": "Guardada como la tarjeta {id}.",
        "score": "{right} de {asked} correctas.",
        "offer": "Con --cards, lo que falles se guarda como tarjetas.",
        "yes": "s",
    },
}  # fmt: skip


def say(language: str, phrase: str, **parts: object) -> str:
    """A phrase with its parts filled in.

    >>> say("es", "score", right=2, asked=3)
    '2 de 3 correctas.'
    """
    return PHRASES[language][phrase].format(**parts)
