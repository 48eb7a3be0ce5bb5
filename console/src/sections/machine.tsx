import { sandbox, status, vault } from "../rpc";
import { Asked, Facts, Json, Table, useAsk } from "../ui/parts";
import { Text } from "../ui/text";
import { when } from "../ui/time";
import { Charts } from "./charts";

export function Vault() {
  const state = useAsk(["vault"], () => vault.getVaultStatus({}));
  const secrets = useAsk(["secrets"], () => vault.listSecrets({}));
  const bindings = useAsk(["bindings"], () => vault.listBindings({}));
  return (
    <>
      <h1>Vault</h1>
      <p className="faint">Names and dates; no value comes to this page.</p>
      <Asked q={state}>
        {(r) => (
          <Facts
            of={[
              ["State", r.status?.state ?? ""],
              ["Kept by", r.status?.keeper ?? ""],
              ["Versions", (r.status?.versions ?? 0n).toString()],
              ["Why", r.status?.why ?? ""],
              ["Remedy", r.status?.remedy ?? ""],
            ]}
          />
        )}
      </Asked>
      <h2>Secrets</h2>
      <Asked q={secrets}>
        {(r) => (
          <Table
            label="Secrets"
            empty="The vault is empty: palyra vault put."
            head={["Scope", "Name", "Version", "By", "Since", "Until"]}
            rows={r.secrets.map((s) => ({ id: `${s.scope}/${s.name}`, cells: [s.scope, s.name, s.version.toString(), s.createdBy, when(s.createdAt), s.expiresAt ? when(s.expiresAt) : ""] }))}
          />
        )}
      </Asked>
      <h2>Bindings</h2>
      <Asked q={bindings}>
        {(r) => (
          <Table
            label="Bindings"
            empty="No secret is bound to a use."
            head={["Name", "Secret", "Kind", "Where", "Tools", "Workspaces"]}
            rows={r.bindings.map((b) => ({ id: b.name, cells: [
              b.name,
              `${b.scope}/${b.secret}`,
              b.kind,
              b.hosts.join(", ") || b.place,
              b.tools.join(", ") || "all",
              b.workspaces.join(", ") || "all",
            ] }))}
          />
        )}
      </Asked>
    </>
  );
}

interface Tier {
  tier: string;
  available: boolean;
  reason: string;
  remedy: string;
  mode: string;
  mechanisms: string[] | null;
  probes: { name: string; held: boolean; detail: string; remedy: string }[] | null;
  notes: string[] | null;
}

export function Posture() {
  const q = useAsk(["posture"], () => sandbox.getPosture({}), 60_000);
  return (
    <>
      <h1>Posture</h1>
      <p className="faint">
        What the sandboxes of this machine were seen to hold, tried from inside and signed. <code>palyra sandbox doctor</code> tries anew.
      </p>
      <Asked q={q}>
        {(r) =>
          r.postures.length === 0 ? (
            <p className="empty">Nothing was tried yet.</p>
          ) : (
            r.postures.map((p) => (
              <section key={p.digest} aria-label="Posture">
                <Facts of={[["Digest", p.digest], ["Holds", p.current ? "now" : "no more: the machine has changed"]]} />
                {tiers(p.posture).map((t) => (
                  <details key={t.tier} open={t.available}>
                    <summary>
                      Tier <Text of={t.tier} />: {t.available ? "available" : "not available"}
                    </summary>
                    <Facts
                      of={[
                        ["Network", t.mode],
                        ["By", (t.mechanisms ?? []).join(", ")],
                        ["Reason", t.reason],
                        ["Remedy", t.remedy],
                        ["Notes", (t.notes ?? []).join("; ")],
                      ]}
                    />
                    <Table
                      label={`Probes of tier ${t.tier}`}
                      empty="Nothing was tried."
                      head={["Try", "Held", "What was seen", "Remedy"]}
                      rows={(t.probes ?? []).map((x) => ({ id: x.name, cells: [x.name, x.held ? "yes" : "NO", x.detail, x.remedy] }))}
                    />
                  </details>
                ))}
                <details>
                  <summary>What was signed</summary>
                  <Json of={p.envelope} label="Envelope" />
                </details>
              </section>
            ))
          )
        }
      </Asked>
    </>
  );
}

function tiers(posture: string): Tier[] {
  try {
    const p: { tiers?: Tier[] } = JSON.parse(posture);
    return p.tiers ?? [];
  } catch {
    return [];
  }
}

export function Status() {
  const q = useAsk(["status"], () => status.getStatus({}), 2_000);
  return (
    <>
      <h1>Status</h1>
      <Asked q={q}>
        {({ status: s }) => (
          <>
            {s?.problems.map((p) => (
              <p key={p} className="note warn">
                <Text of={p} />
              </p>
            ))}
            <Facts
              of={[
                ["Version", s?.version ?? ""],
                ["Since", when(s?.startedAt)],
                ["State", s?.stateId ?? ""],
                ["Preset", s?.preset ?? ""],
                ["Journal", `${s?.journalSize ?? 0n} entries, ${s?.journalOk ? "whole" : "NOT whole"}`],
                ["Waiting", (s?.pendingApprovals ?? 0n).toString()],
                ["Running", (s?.runningCalls ?? 0n).toString()],
                ["Approver separation", s?.approverSeparation ?? ""],
                ["Devices come in at", s?.remoteAddress ?? ""],
                ["Features", Object.entries(s?.features ?? {}).map(([k, v]) => `${k} ${v}`).sort().join(", ")],
                ["Turned away", Object.entries(s?.limited ?? {}).map(([k, v]) => `${k} ${v}`).join(", ")],
              ]}
            />
          </>
        )}
      </Asked>
      <Charts />
    </>
  );
}
