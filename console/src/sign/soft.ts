// Signatures and digests where the browser has none to give: pages that came over plain HTTP have no WebCrypto. What is made
// here is made of plain numbers, which any script of this origin can read. It is loaded by such pages alone.
import { ed25519 } from "@noble/curves/ed25519.js";
import { sha256 } from "@noble/hashes/sha2.js";

export function digestOf(b: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(sha256(b));
}

export interface Pair {
  secret: Uint8Array<ArrayBuffer>;
  public: Uint8Array<ArrayBuffer>;
}

export function makePair(): Pair {
  const { secretKey, publicKey } = ed25519.keygen(crypto.getRandomValues(new Uint8Array(32)));
  return { secret: new Uint8Array(secretKey), public: new Uint8Array(publicKey) };
}

export function signWith(secret: Uint8Array, message: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(ed25519.sign(message, secret));
}

export function verified(sig: Uint8Array, message: Uint8Array, key: Uint8Array): boolean {
  return ed25519.verify(sig, message, key, { zip215: false });
}
