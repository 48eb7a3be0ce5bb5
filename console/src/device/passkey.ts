// Answers by passkey: the authenticator signs the digest of the very bytes that a browser's own key would sign.
import { base64, sha256 } from "../sign/canon";
import type { Signer } from "../sign/intent";

// Passkey is one that this browser was told of.
export interface Passkey {
  id: string; // of its key, as in signatures
  name: string;
  credential: string; // base64url
  audience: string; // the daemon's state that it is known to
}

const place = "palyra.passkey";

// chosenPasskey is the passkey that answers in this browser; none: the browser's own key does.
export function chosenPasskey(): Passkey | undefined {
  const kept = localStorage.getItem(place);
  return kept ? (JSON.parse(kept) as Passkey) : undefined;
}

export function choosePasskey(p: Passkey | undefined): void {
  if (p) {
    localStorage.setItem(place, JSON.stringify(p));
  } else {
    localStorage.removeItem(place);
  }
}

// passkeySigner asks the authenticator, which asks the person.
export function passkeySigner(p: Passkey): Signer {
  return {
    id: p.id,
    audience: p.audience,
    sign: async (message) => {
      const made = (await navigator.credentials.get({
        publicKey: {
          challenge: await sha256(message),
          allowCredentials: [{ type: "public-key", id: unbase64url(p.credential) }],
          userVerification: "required",
          timeout: 90_000,
        },
      })) as PublicKeyCredential | null;
      if (!(made?.response instanceof AuthenticatorAssertionResponse)) {
        throw new DOMException("no assertion", "NotAllowedError");
      }
      return {
        sig: base64(new Uint8Array(made.response.signature)),
        authenticator_data: base64(new Uint8Array(made.response.authenticatorData)),
        client_data_json: base64(new Uint8Array(made.response.clientDataJSON)),
      };
    },
  };
}

function unbase64url(s: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}
