// What an approver reads was written by the party that wants approval. What could mislead is made visible here, in the
// escapes of internal/show: \x1b, \u{202e}, \\.

const honest = /^[\p{L}\p{N}\p{P}\p{S}]$/u;
const hidden = /^[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Variation_Selector}\p{Co}\p{Cn}]$/u;
const fancy = /^[\u{1d400}-\u{1d7ff}\u{ff01}-\u{ff5e}\u{2100}-\u{214f}\u{2460}-\u{24ff}\u{2215}\u{2044}\u{2024}\u{a789}\u{2236}\u{29f8}\u{2800}\u{3164}\u{22ef}]$/u;
const latin = /\p{Script=Latin}/u;
const likely = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Lisu}\p{Script=Coptic}]/u;

function escaped(c: string): string {
  const n = c.codePointAt(0) ?? 0;
  return n < 0x100 ? `\\x${n.toString(16).padStart(2, "0")}` : `\\u{${n.toString(16)}}`;
}

// blanks marks long runs of blanks, which could push what follows out of sight. The sign is in no outside text.
function blanks(safe: string): string {
  return safe.replace(/ {64,}/g, (run) => `⋯ ${run.length} blanks ⋯`);
}

// visible renders outside text; lines stay lines where lines is true.
export function visible(s: string, lines = false): string {
  let out = "";
  for (const word of s.split(/(?<=[\s/.:@=])|(?=[\s/.:@=])/u)) {
    const mixed = likely.test(word) && latin.test(word);
    for (const c of word) {
      if (c === " " || (c >= "!" && c <= "~" && c !== "\\") || (lines && (c === "\n" || c === "\t"))) {
        out += c;
      } else if (c === "\\") {
        out += "\\\\";
      } else if (c > "~" && honest.test(c) && !hidden.test(c) && !fancy.test(c) && !(mixed && likely.test(c))) {
        out += c;
      } else {
        out += escaped(c);
      }
    }
  }
  return blanks(out);
}

// argument renders one element of a command in ASCII, quoted unless it is a bare word.
export function argument(s: string): string {
  let out = "";
  for (const c of s) {
    out += c >= " " && c <= "~" ? (c === "\\" || c === "'" ? `\\${c}` : c) : escaped(c);
  }
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(s) ? s : `'${blanks(out)}'`;
}

// pieces cuts a long text into what is shown at once: its head and its tail, never only the head.
export function pieces(s: string, most: number): { head: string; left: number; tail: string } {
  if (s.length <= most) {
    return { head: s, left: 0, tail: "" };
  }
  const half = Math.floor(most / 2);
  return { head: s.slice(0, half), left: s.length - 2 * half, tail: s.slice(-half) };
}
