import type { Terms } from "../gen/palyra/v1/word_pb";
import { ApprovalsService } from "../gen/palyra/v1/approvals_pb";
import { approvals } from "../rpc";
import { Act, Asked, Table, useAsk } from "../ui/parts";
import { when } from "../ui/time";

// covers is what a lease is for, as far as its terms say.
function covers(t?: Terms): string {
  const parts = [
    t?.tool || t?.tools.join(" "),
    t?.program,
    t?.hosts.length ? `at ${t.hosts.join(" ")}` : "",
    t?.group && `hosts of ${t.group}`,
    t?.pathRoot && `below ${t.pathRoot}`,
    t?.readRoot && `reads below ${t.readRoot}`,
    t?.branch && `branch ${t.branch}`,
    t?.remote,
    t?.workspace && `in ${t.workspace}`,
    t?.planDigest ? "exactly this plan" : "",
  ];
  return parts.filter(Boolean).join(", ");
}

export function Leases() {
  const q = useAsk(["leases"], () => approvals.listGrants({ limit: 200n }), 2_000);
  return (
    <>
      <h1>Leases</h1>
      <p className="faint">What was allowed for a while. Revoking one ends what runs because of it.</p>
      <Asked q={q}>
        {(r) => (
          <Table
            label="Leases"
            empty="Nothing is allowed in advance."
            head={["For", "Covers", "By", "Until", "Uses left", ""]}
            rows={r.grants.map((g) => ({ id: g.grantId, cells: [
              g.terms?.principal ?? "",
              covers(g.terms),
              g.grantedBy,
              g.expiresAt ? when(g.expiresAt) : g.scope,
              g.usesLeft > 0n ? g.usesLeft.toString() : "any",
              <Act
                key="revoke"
                of={g.grantId}
                what={`${covers(g.terms)}, ${g.grantId}`}
                name="Revoke"
                sure="Revoke now"
                again={["leases"]}
                needs={ApprovalsService.method.revokeGrant}
                run={() => approvals.revokeGrant({ grantId: g.grantId })}
              />,
            ] }))}
          />
        )}
      </Asked>
    </>
  );
}
