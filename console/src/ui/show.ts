// What an approver reads was written by the party that wants approval. What could mislead is made visible here, as internal/show
// does it for terminals: \x1b, \u{202e}, \\, and runs of blanks by their number. Both have the same classes of characters
// (kinds.ts) and are held against the same vectors.
import { classes, runs } from "./kinds.ts";

// Kinds, and the bits beside them, as in internal/show.
const fine = 0;
const control = 2;
const stacked = 6;
const lookalike = 7;
const rightToLeft = 8;
const isMark = 16;
const isLetter = 32;
const isDigit = 64;
const isLatin = 128;
const isNear = 256;
const isFar = 512;
const isInherited = 1024;

const starts: number[] = [];
const ofRun: number[] = [];
let begun = 0;
for (const [, letter = "A", many = ""] of runs.matchAll(/([A-Z])([0-9a-z]*)/g)) {
  starts.push(begun);
  ofRun.push(classes[letter.charCodeAt(0) - 65] ?? control);
  begun += many ? Number.parseInt(many, 36) : 1;
}

// classOf finds the class of a character; one beyond the table would be a control character.
function classOf(n: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if ((starts[mid] ?? 0) <= n) {
      low = mid;
    } else {
      high = mid - 1;
    }
  }
  return ofRun[low] ?? control;
}

interface Cell {
  c: string;
  bits: number;
  kind: number;
}

const maxMarks = 3; // of its own script, on one letter
const tooBlank = " ".repeat(64);
const plain = /^[ -[\]-~]*$/;

function parse(s: string, lines: boolean): Cell[] {
  const cells: Cell[] = [];
  for (const c of s) {
    const bits = classOf(c.codePointAt(0) ?? 0);
    const kind = bits & 15;
    cells.push({ c, bits, kind: kind === rightToLeft && lines ? fine : kind });
  }
  judgeMarks(cells);
  judgeWords(cells);
  return cells;
}

// judgeMarks escapes combining marks except those a script needs.
function judgeMarks(cells: Cell[]): void {
  let run = 0;
  let base = false;
  for (const c of cells) {
    if (!(c.bits & isMark)) {
      run = 0;
      base = c.kind === fine && (c.bits & isLetter) !== 0 && c.c > "\x7f";
      continue;
    }
    run++;
    if (c.kind === fine && (!base || run > maxMarks || c.bits & isInherited)) {
      c.kind = stacked;
    }
  }
}

const inWord = (c: Cell) => c.kind === fine && ((c.bits & (isLetter | isDigit | isMark)) !== 0 || c.c === "_");

// judgeWords escapes the letters by which a word passes for another: of an alphabet that looks like Latin, in a word with Latin
// letters, and words that are of look-alikes only.
function judgeWords(cells: Cell[]): void {
  for (let i = 0; i < cells.length; ) {
    let j = i;
    let seen = 0;
    for (let c = cells[j]; c && inWord(c); c = cells[++j]) {
      seen |= c.bits & (isLatin | isNear | isFar);
    }
    if (seen & (isNear | isFar) && (seen & isLatin || !(seen & isFar))) {
      for (const c of cells.slice(i, j)) {
        if (c.bits & (isNear | isFar)) {
          c.kind = lookalike;
        }
      }
    }
    i = Math.max(j, i + 1);
  }
}

const short: { [c: string]: string } = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(c: string, lines: boolean): string {
  const n = c.codePointAt(0) ?? 0;
  const named = lines ? undefined : short[c];
  return named ?? (n < 0x80 ? `\\x${n.toString(16).padStart(2, "0")}` : `\\u{${n.toString(16)}}`);
}

// misread reports whether a backslash would read as the begin of an escape, by what follows it.
function misread(next: Cell | undefined, rest: string, lines: boolean): boolean {
  if (!next) {
    return false;
  }
  if (next.c === "\\" || next.kind !== fine) {
    return next.c !== "\t" || !lines;
  }
  return /^(u\{|x[0-9a-f]{2})/.test(rest) || (!lines && /^[nrt]/.test(rest));
}

const tabMark = "⇥";

function render(s: string, lines: boolean): string {
  if (plain.test(s) && !s.includes(tooBlank)) {
    return s;
  }
  const cells = parse(s, lines);
  const out: string[] = [];
  let column = 0;
  let at = 0;
  for (let i = 0; i < cells.length; i++) {
    const { c, kind } = cells[i] as Cell;
    let text = c;
    let taken = c.length;
    if (c === " " && s.startsWith(tooBlank, at)) {
      taken = /^ */.exec(s.slice(at))?.[0].length ?? 1;
      text = `⋯ ${taken} blanks ⋯`;
      i += taken - 1;
    } else if (c === "\t" && lines) {
      text = tabMark + " ".repeat(3 - (column % 4));
    } else if (kind !== fine) {
      text = escaped(c, lines);
    } else if (c === "\\" && misread(cells[i + 1], s.slice(at + 1, at + 4), lines)) {
      text = "\\\\";
    }
    out.push(text);
    column += text.length - (text.length > 1 && text === c ? 1 : 0); // one that takes two units is one character
    at += taken;
  }
  return out.join("");
}

// visible renders outside text; lines stay lines where lines is true.
export function visible(s: string, lines = false): string {
  return lines ? s.split("\n").map((l) => render(l, true)).join("\n") : render(s, false);
}

// argument renders one element of a command in ASCII, quoted unless it is a bare word.
export function argument(s: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(s)) {
    return s;
  }
  let out = "";
  for (const [part] of s.matchAll(/ {64,}|[\s\S]/gu)) {
    if (part.length >= tooBlank.length) {
      out += `\\s{${part.length}}`;
    } else if (part === '"' || part === "\\") {
      out += `\\${part}`;
    } else {
      out += part >= " " && part <= "~" ? part : escaped(part, false);
    }
  }
  return `"${out}"`;
}

// pieces cuts a long text into what is shown at once: its head and its tail, never only the head.
export function pieces(s: string, most: number): { head: string; left: number; tail: string } {
  if (s.length <= most) {
    return { head: s, left: 0, tail: "" };
  }
  const half = Math.floor(most / 2);
  return { head: s.slice(0, half), left: s.length - 2 * half, tail: s.slice(-half) };
}
