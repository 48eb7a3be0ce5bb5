// The checks of an attestation that a page can do by itself, each with what it found. palyra-verify does more, and asks no daemon
// for the key.
import { useQuery } from "@tanstack/react-query";
import type { Attestation } from "../gen/palyra/v1/attestation_pb";
import type { Entry } from "../gen/palyra/v1/journal_pb";
import type { Key } from "../gen/palyra/v1/key_pb";
import { asProblem, keys } from "../rpc";
import { hex, sha256, soft } from "../sign/canon";
import { Table } from "../ui/parts";
import { Trouble } from "../ui/trouble";

interface Check {
  name: string;
  held: boolean;
  seen: string;
}

interface Statement {
  subject?: { digest?: { sha256?: string } }[];
  predicate?: { call_id?: string; plan_digest?: string; attestation_id?: string };
}

const bytes = (s: string) => Uint8Array.from(atob(s), (c) => c.charCodeAt(0));

// pae is what a DSSE envelope's signature is made over.
function pae(type: string, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const head = new TextEncoder().encode(`DSSEv1 ${type.length} ${type} ${payload.length} `);
  const out = new Uint8Array(head.length + payload.length);
  out.set(head);
  out.set(payload, head.length);
  return out;
}

function body(entries: readonly Entry[], kind: string): { [name: string]: unknown } {
  try {
    return JSON.parse(entries.find((e) => e.kind === kind)?.body ?? "{}");
  } catch {
    return {};
  }
}

async function signed(key: Key | undefined, type: string, payload: Uint8Array, sig: string): Promise<boolean> {
  if (key?.use !== "attestation") {
    return false;
  }
  if (!crypto.subtle) {
    return (await soft()).verified(bytes(sig), pae(type, payload), bytes(key.publicKey));
  }
  const pub = await crypto.subtle.importKey("raw", bytes(key.publicKey), "Ed25519", false, ["verify"]);
  return crypto.subtle.verify("Ed25519", pub, bytes(sig), pae(type, payload));
}

export async function checksOf(a: Attestation, entries: readonly Entry[], all: readonly Key[]): Promise<Check[]> {
  const digest = `sha256:${hex(await sha256(new TextEncoder().encode(a.envelope)))}`;
  const env: { payloadType: string; payload: string; signatures: { keyid: string; sig: string }[] } = JSON.parse(a.envelope);
  const payload = bytes(env.payload);
  const statement: Statement = JSON.parse(new TextDecoder().decode(payload));
  const [sig] = env.signatures;
  const key = all.find((k) => k.keyId === sig?.keyid);
  const plan = statement.predicate?.plan_digest ?? "";
  const finished = body(entries, "call.finished");
  const granted = body(entries, "call.granted");
  return [
    { name: "The envelope has the digest that names it", held: digest === a.digest, seen: digest },
    { name: "A key of the daemon's signed it, and nothing was changed since", held: !!sig && (await signed(key, env.payloadType, payload, sig.sig)), seen: sig?.keyid ?? "no signature" },
    { name: "It is about this call", held: statement.predicate?.call_id === a.callId, seen: statement.predicate?.call_id ?? "" },
    { name: "Its subject is the plan", held: plan === `sha256:${statement.subject?.[0]?.digest?.sha256}`, seen: plan },
    { name: "What is shown is what was signed", held: JSON.stringify(statement.predicate) === JSON.stringify(JSON.parse(a.predicate)), seen: a.attestationId },
    { name: "The journal granted that plan", held: granted.plan_digest === plan, seen: String(granted.plan_digest ?? "no entry") },
    { name: "The journal names this attestation at the end of the call", held: finished.attestation_digest === a.digest, seen: String(finished.attestation_digest ?? "no entry") },
  ];
}

export function Checks({ of, entries }: { of: Attestation; entries: readonly Entry[] }) {
  const q = useQuery({
    queryKey: ["checks", of.digest, entries.length],
    queryFn: async () => checksOf(of, entries, (await keys.listKeys({})).keys),
  });
  if (q.error) {
    return <Trouble problem={asProblem(q.error)} />;
  }
  return (
    <div data-testid="checks">
      <Table
        label="Checks"
        empty="Checking…"
        head={["Check", "Held", "What was seen"]}
        rows={(q.data ?? []).map((c) => ({ id: c.name, cells: [c.name, c.held ? "yes" : "NO", c.seen] }))}
      />
    </div>
  );
}
