// With which key answers are signed in this browser: its own, or a passkey of the person who signed it in.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { accesses, devices, status } from "../rpc";
import { usePaired } from "./pairing";
import { choosePasskey, chosenPasskey, type Passkey } from "./passkey";

export interface Choice {
  own: boolean; // the browser has a key
  passkeys: Passkey[];
  chosen: string; // the id of the key; empty: there is none
  choose: (id: string) => void;
}

// usePasskeys are the person's passkeys of this very origin that the daemon still takes, and whether that is what it says now.
function usePasskeys(): [Passkey[] | undefined, boolean] {
  const q = useQuery({
    queryKey: ["devices", "passkeys"],
    queryFn: async () => {
      const [{ me }, { devices: all }, { status: s }] = await Promise.all([accesses.whoAmI({}), devices.listDevices({}), status.getStatus({})]);
      return all
        .filter((d) => !d.revokedAt && d.principal === me?.principal && d.passkey?.origin === location.origin)
        .map((d) => ({ id: d.keyId, name: d.name, credential: d.passkey?.credentialId ?? "", audience: s?.stateId ?? "" }));
    },
  });
  return [q.data, q.isSuccess && !q.isFetching];
}

export function useAnswerer(): Choice {
  const key = usePaired();
  const [known, fresh] = usePasskeys();
  const [, redraw] = useState(0);
  const passkeys = known ?? [];
  let passkey = chosenPasskey();
  if (fresh && passkey && !passkeys.some((p) => p.id === passkey?.id)) {
    choosePasskey(undefined); // it was revoked
    passkey = undefined;
  }
  if (!passkey && key === null && passkeys[0]) {
    choosePasskey(passkeys[0]); // there is nothing else to answer with
    passkey = passkeys[0];
  }
  return {
    own: !!key,
    passkeys,
    chosen: passkey?.id ?? key?.id ?? "",
    choose: (id) => {
      choosePasskey(passkeys.find((p) => p.id === id));
      redraw((n) => n + 1);
    },
  };
}

// Answerer lets the person choose, where there is a choice.
export function Answerer({ of }: { of: Choice }) {
  if (of.passkeys.length === 0) {
    return null;
  }
  return (
    <label>
      Signed with{" "}
      <select name="answerer" value={of.passkeys.some((p) => p.id === of.chosen) ? of.chosen : ""} onChange={(e) => of.choose(e.target.value)}>
        {of.own && <option value="">this browser's key</option>}
        {of.passkeys.map((p) => (
          <option key={p.id} value={p.id}>
            passkey {p.name}
          </option>
        ))}
      </select>
    </label>
  );
}
