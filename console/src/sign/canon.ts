// One byte string per value, as internal/canon has it: what digests and signatures are made over.

export type Value = null | boolean | bigint | string | Value[] | { [key: string]: Value };

const utf8 = new TextEncoder();

function concat(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

function text(tag: string, s: string): Uint8Array {
  if (!s.isWellFormed()) {
    throw new Error("a text holds half a character");
  }
  const b = utf8.encode(s);
  return concat([utf8.encode(`${tag}${b.length}:`), b]);
}

function compare(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const d = (a[i] ?? 0) - (b[i] ?? 0);
    if (d !== 0) {
      return d;
    }
  }
  return a.length - b.length;
}

// canon returns the bytes of a value. Numbers are integers of 64 bits, which are written plainly.
export function canon(v: Value): Uint8Array<ArrayBuffer> {
  if (v === null) {
    return utf8.encode("z");
  }
  switch (typeof v) {
    case "boolean":
      return utf8.encode(v ? "t" : "f");
    case "bigint":
      return concat([text("n", v.toString())]);
    case "string":
      return concat([text("s", v)]);
  }
  if (Array.isArray(v)) {
    return concat([utf8.encode(`l${v.length}:`), ...v.map(canon)]);
  }
  const keys = Object.keys(v)
    .map((k) => ({ k, b: utf8.encode(k) }))
    .sort((x, y) => compare(x.b, y.b));
  const parts: Uint8Array[] = [utf8.encode(`m${keys.length}:`)];
  for (const { k } of keys) {
    parts.push(text("s", k), canon(v[k] ?? null));
  }
  return concat(parts);
}

// soft stands in for WebCrypto, which pages over plain HTTP do not have.
export const soft = () => import("./soft");

export async function sha256(b: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  if (!crypto.subtle) {
    return (await soft()).digestOf(b);
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", b));
}

export function hex(b: Uint8Array): string {
  return Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
}

export function base64(b: Uint8Array): string {
  return btoa(String.fromCharCode(...b));
}

// digest is "sha256:<hex>" over a domain and a value.
export async function digest(domain: string, v: Value): Promise<string> {
  return `sha256:${hex(await sha256(concat([utf8.encode(`palyra/${domain}\0`), canon(v)])))}`;
}

// tagged are the bytes of a value under a domain.
export function tagged(domain: string, v: Value): Uint8Array<ArrayBuffer> {
  return concat([utf8.encode(`palyra/${domain}\0`), canon(v)]);
}
