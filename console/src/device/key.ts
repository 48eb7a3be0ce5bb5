// The browser's own key. It is made here, WebCrypto gives it to nobody, and it lies in this origin's database: pages
// of other ports and names cannot use it. That of a page over plain HTTP can be read by whatever runs there, and only denies.
import { base64, hex, sha256, soft } from "../sign/canon";
import type { Signer } from "../sign/intent";

export interface OwnKey {
  id: string; // as in signatures
  device: string;
  name: string;
  public: string;
  private: CryptoKey | Uint8Array<ArrayBuffer>;
  audience: string; // the daemon's state that it is paired with: signatures are for that and no other
  paired: boolean;
}

const place = "own";

function database(): Promise<IDBDatabase> {
  return new Promise((done, fail) => {
    const open = indexedDB.open("palyra", 1);
    open.onupgradeneeded = () => open.result.createObjectStore("keys");
    open.onsuccess = () => done(open.result);
    open.onerror = () => fail(open.error);
  });
}

async function within<T>(mode: IDBTransactionMode, work: (s: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const db = await database();
  try {
    return await new Promise((done, fail) => {
      const tx = db.transaction("keys", mode);
      const req = work(tx.objectStore("keys"));
      tx.oncomplete = () => done(req.result);
      tx.onerror = () => fail(tx.error);
      tx.onabort = () => fail(tx.error);
    });
  } finally {
    db.close();
  }
}

// kept returns the key that lies here, paired or not.
async function kept(): Promise<OwnKey | undefined> {
  return (await within("readonly", (s) => s.get(place))) as OwnKey | undefined;
}

// ownKey returns this browser's key once it is paired.
export async function ownKey(): Promise<OwnKey | undefined> {
  const k = await kept();
  return k?.paired ? k : undefined;
}

async function generate(): Promise<{ raw: Uint8Array<ArrayBuffer>; secret: OwnKey["private"] }> {
  if (!crypto.subtle) {
    const made = (await soft()).makePair();
    return { raw: made.public, secret: made.secret };
  }
  const pair = (await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
  return { raw: new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)), secret: pair.privateKey };
}

// makeKey makes a key, in the place of one that was never paired.
export async function makeKey(): Promise<OwnKey> {
  const { raw, secret } = await generate();
  const sum = hex((await sha256(raw)).slice(0, 16));
  const key = {
    id: `op-${sum}`,
    device: `dev-${sum}`,
    name: `${browserName()}-${sum.slice(0, 6)}`,
    public: base64(raw),
    private: secret,
    audience: "",
    paired: false,
  };
  await within("readwrite", (s) => s.put(key, place));
  return key;
}

// keepPaired notes that a key became a device of a daemon's.
export async function keepPaired(key: OwnKey, audience: string): Promise<void> {
  await within("readwrite", (s) => s.put({ ...key, audience, paired: true }, place));
}

// keySigner signs with the browser's own key.
export function keySigner(key: OwnKey): Signer {
  const { private: secret } = key;
  return {
    id: key.id,
    audience: key.audience,
    sign: async (message) => ({
      sig: base64(
        secret instanceof Uint8Array
          ? (await soft()).signWith(secret, message)
          : new Uint8Array(await crypto.subtle.sign("Ed25519", secret, message)),
      ),
    }),
  };
}

export async function forgetKey(): Promise<void> {
  await within("readwrite", (s) => s.delete(place));
}

// fingerprint is a key for people to compare: 128 bits in groups of four.
export function fingerprint(key: OwnKey): string {
  return (key.id.slice(3).toUpperCase().match(/.{4}/g) ?? []).join(" ");
}

function browserName(): string {
  const agent = navigator.userAgent;
  for (const [sign, name] of [["Firefox/", "firefox"], ["Edg/", "edge"], ["Chrome/", "chromium"], ["Safari/", "safari"]] as const) {
    if (agent.includes(sign)) {
      return name;
    }
  }
  return "browser";
}
