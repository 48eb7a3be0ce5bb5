// Pairing this browser: with the link or the PIN of 'palyra console pair', and a person's yes in that terminal.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { asProblem, devices, type Problem, status } from "../rpc";
import { Trouble } from "../ui/trouble";
import { onlyDenies } from "./beyond";
import { fingerprint, forgetKey, keepPaired, makeKey, type OwnKey, ownKey } from "./key";

let code = "";

// takePairCode takes the code out of the address, where it stays in no history.
export function takePairCode(): void {
  const hash = new URLSearchParams(location.hash.slice(1));
  if (hash.has("pair")) {
    code = hash.get("pair") ?? "";
    history.replaceState(null, "", "/");
  }
}

// usePaired is this browser's key, as far as the daemon still takes it.
export function usePaired(): OwnKey | null | undefined {
  const q = useQuery({
    queryKey: ["own-key"],
    queryFn: async () => {
      const key = await ownKey();
      if (!key) {
        return null;
      }
      try {
        const d = (await devices.getDevice({ device: key.device })).device;
        return d && !d.revokedAt ? key : null;
      } catch (e) {
        if (asProblem(e).code === "not_found") {
          await forgetKey();
          return null;
        }
        throw e;
      }
    },
  });
  return q.data;
}

type Step = { at: "idle" } | { at: "asking"; print: string } | { at: "failed"; problem: Problem };

// Pairing is the way from looking to deciding.
export function Pairing() {
  const paired = usePaired();
  const queries = useQueryClient();
  const [step, setStep] = useState<Step>({ at: "idle" });
  const [pin, setPin] = useState("");
  const begun = useRef(false);

  const join = async (secret: string) => {
    try {
      const key = await makeKey();
      setStep({ at: "asking", print: fingerprint(key) });
      for await (const m of devices.joinBrowser({ name: key.name, publicKey: key.public, code: secret })) {
        if (m.pairing?.state === "paired") {
          await keepPaired(key, (await status.getStatus({})).status?.stateId ?? "");
          await queries.invalidateQueries({ queryKey: ["own-key"] });
        }
      }
      setStep({ at: "idle" });
    } catch (e) {
      setStep({ at: "failed", problem: asProblem(e) });
    }
  };

  useEffect(() => {
    if (code && paired === null && !begun.current) {
      begun.current = true; // a code is good once
      void join(code);
    }
  });

  if (paired !== null) {
    return null;
  }
  return (
    <section className="note pairing" aria-label="Pair this browser">
      {step.at === "asking" ? (
        <div role="status">
          <p>
            <strong>Compare this key with the one in the terminal</strong>, and answer there.
          </p>
          <p className="print" data-testid="fingerprint">{step.print}</p>
        </div>
      ) : (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            void join(pin);
          }}
        >
          {onlyDenies ? (
            <p className="warn">
              This page came over plain HTTP: others on the way can read it, and could have made it. Paired (by the link or the PIN of{" "}
              <code>palyra console pair --door plain</code>), this browser denies, and never does anything else. To allow, answer on the
              daemon's machine, or by HTTPS: see <code>console.https_listen</code>.
            </p>
          ) : (
            <p>
              <strong>This browser looks; it does not decide yet.</strong> Run <code>palyra console pair</code> in a terminal and open its
              link, or type its PIN here.
            </p>
          )}
          <label>
            PIN <input name="pin" inputMode="numeric" autoComplete="off" size={10} value={pin} onChange={(e) => setPin(e.target.value)} />
          </label>{" "}
          <button type="submit" disabled={pin.replaceAll(/[ -]/g, "").length !== 8}>
            Pair
          </button>
        </form>
      )}
      {step.at === "failed" && <Trouble problem={step.problem} />}
    </section>
  );
}
