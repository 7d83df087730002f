"""The words of the pictures in Japanese. They are in japanese.json, where # stands for a number."""
import json
import re
from pathlib import Path

WORDS = json.loads((Path(__file__).parent / "japanese.json").read_text(encoding="utf-8"))
NUMBER = r"\d+(?:[.,]\d+)*"
FONTS = {"en": ["DejaVu Sans"], "ja": ["IPAexGothic", "DejaVu Sans"]}


def translate(text, language):
    """The text in this language, "en" or "ja"."""
    return text if language == "en" else "\n".join(map(japanese, text.split("\n")))


def japanese(line):
    """The line in Japanese, with its numbers in the same order. Symbols stay as they are."""
    if not re.search("[a-z]{2}", line):
        return line
    numbers = iter(re.findall(NUMBER, line))
    return re.sub("#", lambda _: next(numbers), WORDS[re.sub(NUMBER, "#", line)])
