"""A captured terminal screen (tmux capture-pane -e) as SVG. Usage: terminal_svg.py WIDTH HEIGHT <SCREEN >SVG

Braille, blocks and lines are drawn as shapes, so that a picture does not depend on the reader's fonts."""

import re
import sys
from html import escape

CELL, LINE, SIZE = 8, 17, 13
BACK, FRONT = "#16181d", "#d8dbe2"
# The terminal's colours 0 to 15, calm on a dark ground.
COLOURS = ["#16181d", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dbe2",
           "#6b7280", "#ff7b86", "#b3e08f", "#ffd580", "#7cc0ff", "#da94f0", "#6fd3df", "#ffffff"]
DOTS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]


def cells(line, style):
    """The characters of a line, each with its style. `style` is in force at its begin, and then at its end."""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        codes = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not codes:
            for character in part:
                yield character, dict(style)
            continue
        codes = [int(code or 0) for code in codes[1].split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                style.clear()
            elif code in (1, 2, 4, 7):
                style[{1: "bold", 2: "dim", 4: "underline", 7: "reverse"}[code]] = True
            elif 30 <= code <= 37 or 90 <= code <= 97:
                style["front"] = COLOURS[code - 30 if code < 40 else code - 82]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                style["back"] = COLOURS[code - 40 if code < 50 else code - 92]
            elif code in (38, 48) and codes[:1] == [5]:
                number = codes[1]
                del codes[:2]
                style["front" if code == 38 else "back"] = COLOURS[number] if number < 16 else FRONT
            elif code == 39:
                style.pop("front", None)
            elif code == 49:
                style.pop("back", None)


def shape(character, x, y):
    """The shapes of a character as path data: filled, and dots as strokes; or None if it is text."""
    code = ord(character)
    box = lambda left, top, width, height: f"M{x + left:g} {y + top:g}h{width:g}v{height:g}h{-width:g}z"
    middle = LINE / 2
    if 0x2800 <= code <= 0x28FF:
        dots = [DOTS[bit] for bit in range(8) if code - 0x2800 >> bit & 1]
        return "", "".join(f"M{x + 1.2 + 3.6 * column:g} {y + 2.8 + 3.9 * row:g}h2.2" for column, row in dots)
    if 0x2581 <= code <= 0x2588:
        height = LINE * (code - 0x2580) / 8
        return box(0.5, LINE - height, CELL - 1, height), ""
    if character == "▔":
        return box(0, 0, CELL, 1.5), ""
    if character == "━":
        return box(0, middle - 1.5, CELL, 3), ""
    if character == "─":
        return box(0, middle - 0.5, CELL, 1), ""
    if character in "┿┼":
        thick = 1.5 if character == "┿" else 0.5
        return box(0, middle - thick, CELL, 2 * thick) + box(CELL / 2 - 0.75, 3, 1.5, LINE - 6), ""
    if character == "·":
        return box(CELL / 2 - 0.9, LINE - 4, 1.8, 1.8), ""
    corners = {"│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "udr", "┤": "udl"}
    if character in corners:
        arms = {"u": (CELL / 2, 0, 1, middle), "d": (CELL / 2, middle, 1, middle),
                "l": (0, middle, CELL / 2, 1), "r": (CELL / 2, middle, CELL / 2, 1)}
        return "".join(box(*arms[arm]) for arm in corners[character]), ""
    return None


def main():
    width, height = int(sys.argv[1]), int(sys.argv[2])
    lines = sys.stdin.read().split("\n")[:height]
    whole = f"{width * CELL + 24} {height * LINE + 24}"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole}" font-size="{SIZE}" '
           'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace">',
           f'<title>pageset top on a terminal of {width} x {height} characters</title>',
           f'<rect width="100%" height="100%" rx="6" fill="{BACK}"/>']
    at_end = {}
    for row, line in enumerate(lines):
        y, runs = 12 + row * LINE, []
        for column, (character, style) in enumerate(cells(line, at_end)):
            if runs and runs[-1][1] == style:
                runs[-1][2].append(character)
            else:
                runs.append((column, style, [character]))
        for column, style, characters in runs:
            x, length = 12 + column * CELL, len(characters) * CELL
            front, back = style.get("front", FRONT), style.get("back", BACK)
            if style.get("reverse"):
                front, back = back, front
            if back != BACK:
                out.append(f'<rect x="{x}" y="{y}" width="{length}" height="{LINE}" fill="{back}"/>')
            if style.get("underline"):
                out.append(f'<rect x="{x}" y="{y + LINE - 1.5}" width="{length}" height="1" fill="{front}" opacity="0.6"/>')
            filled, dots, text = "", "", []
            for place, character in enumerate(characters):
                drawn = shape(character, x + place * CELL, y)
                text.append(character if drawn is None else " ")
                filled, dots = (filled + drawn[0], dots + drawn[1]) if drawn else (filled, dots)
            if filled:
                out.append(f'<path fill="{front}" d="{filled}"/>')
            if dots:
                out.append(f'<path stroke="{front}" stroke-width="2.4" d="{dots}"/>')
            # Each word has its own place, so that a font of another width does not move the rest.
            for word in re.finditer(r"\S+", "".join(text)):
                bold = ' font-weight="bold"' if style.get("bold") else ""
                dim = ' opacity="0.6"' if style.get("dim") else ""
                out.append(f'<text x="{x + word.start() * CELL}" y="{y + 13}" textLength="{len(word[0]) * CELL}" '
                           f'lengthAdjust="spacingAndGlyphs" fill="{front}"{bold}{dim}>{escape(word[0])}</text>')
    print("\n".join(out + ["</svg>"]))


main()
