// A new passkey: the authenticator makes it, and it is let in as a browser is, by the PIN of 'palyra console pair' and a
// person's yes in that terminal.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { asProblem, devices, type Problem, status } from "../rpc";
import { hex, sha256 } from "../sign/canon";
import { Trouble } from "../ui/trouble";
import { choosePasskey } from "./passkey";

interface Made {
  id: string; // of the key
  credential: Uint8Array<ArrayBuffer>;
  attestation: Uint8Array<ArrayBuffer>;
  client: Uint8Array<ArrayBuffer>;
}

// make asks an authenticator for a passkey.
async function make(): Promise<Made> {
  const ask = await devices.beginPasskey({});
  const own = (b: Uint8Array) => new Uint8Array(b);
  const made = (await navigator.credentials.create({
    publicKey: {
      challenge: own(ask.challenge),
      rp: { id: ask.rpId, name: "Palyra" },
      user: { id: own(ask.userId), name: ask.userName, displayName: ask.userName },
      pubKeyCredParams: [-7, -8].map((alg) => ({ type: "public-key", alg })),
      excludeCredentials: ask.exclude.map((id) => ({ type: "public-key", id: own(id) })),
      authenticatorSelection: { userVerification: "required", residentKey: "preferred" },
      attestation: "none",
    },
  })) as PublicKeyCredential | null;
  const answer = made?.response;
  const key = answer instanceof AuthenticatorAttestationResponse ? answer.getPublicKey() : null;
  if (!made || !(answer instanceof AuthenticatorAttestationResponse) || !key) {
    throw new DOMException("no passkey", "NotAllowedError");
  }
  return {
    id: hex((await sha256(new Uint8Array(key))).slice(0, 16)),
    credential: new Uint8Array(made.rawId),
    attestation: new Uint8Array(answer.attestationObject),
    client: new Uint8Array(answer.clientDataJSON),
  };
}

function base64url(b: Uint8Array): string {
  return btoa(String.fromCharCode(...b)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

type Step = { at: "idle" } | { at: "making" } | { at: "asking"; print: string } | { at: "failed"; problem: Problem };

export function NewPasskey() {
  const queries = useQueryClient();
  const [step, setStep] = useState<Step>({ at: "idle" });
  const [pin, setPin] = useState("");
  if (typeof PublicKeyCredential === "undefined") {
    return null;
  }
  const add = async () => {
    try {
      setStep({ at: "making" });
      const made = await make();
      setStep({ at: "asking", print: (made.id.toUpperCase().match(/.{4}/g) ?? []).join(" ") });
      const name = `passkey-${made.id.slice(0, 6)}`;
      const passkey = { credentialId: made.credential, attestationObject: made.attestation, clientDataJson: made.client };
      for await (const m of devices.joinBrowser({ name, code: pin, passkey })) {
        if (m.pairing?.state === "paired") {
          const audience = (await status.getStatus({})).status?.stateId ?? "";
          choosePasskey({ id: `op-${made.id}`, name, credential: base64url(made.credential), audience });
          await queries.invalidateQueries({ queryKey: ["devices"] });
        }
      }
      setPin("");
      setStep({ at: "idle" });
    } catch (e) {
      setStep({ at: "failed", problem: asProblem(e) });
    }
  };
  return (
    <section className="note" aria-label="Add a passkey">
      {step.at === "asking" ? (
        <div role="status">
          <p>
            <strong>Compare this key with the one in the terminal</strong>, and answer there.
          </p>
          <p className="print" data-testid="passkey-fingerprint">{step.print}</p>
        </div>
      ) : (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            void add();
          }}
        >
          <p>
            Answer with a passkey: a key of this device or of a security key, which verifies you each time. Run{" "}
            <code>palyra console pair</code> in a terminal, and type its PIN here.
          </p>
          <label>
            PIN <input name="passkey-pin" inputMode="numeric" autoComplete="off" size={10} value={pin} onChange={(e) => setPin(e.target.value)} />
          </label>{" "}
          <button type="submit" disabled={step.at === "making" || pin.replaceAll(/[ -]/g, "").length !== 8}>
            Add a passkey
          </button>
        </form>
      )}
      {step.at === "failed" && <Trouble problem={step.problem} />}
    </section>
  );
}
