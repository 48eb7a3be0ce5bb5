import type { ReactNode } from "react";
import { McpService, type Upstream, type UpstreamTool } from "../gen/palyra/v1/mcp_pb";
import { Offer } from "../device/offer";
import { AccessService } from "../gen/palyra/v1/access_pb";
import { DeviceService } from "../gen/palyra/v1/device_pb";
import { NewPasskey } from "../device/newpasskey";
import { Push } from "../notices/push";
import { accesses, devices, upstreams } from "../rpc";
import { Act, Asked, Facts, Json, Table, useAsk } from "../ui/parts";
import { Block, Text } from "../ui/text";
import { when } from "../ui/time";

export function Devices() {
  const q = useAsk(["devices"], () => devices.listDevices({}));
  return (
    <>
      <h1>Devices</h1>
      <p className="faint">
        Other machines and browsers that decide and look here. From a terminal, <code>palyra device pair</code> pairs a machine,{" "}
        <code>palyra console pair</code> a browser.
      </p>
      <Offer />
      <NewPasskey />
      <Push />
      <Asked q={q}>
        {(r) => (
          <Table
            label="Devices"
            empty="No device is paired."
            head={["Name", "Whose", "Role", "Kind", "Paired", "Until", ""]}
            rows={r.devices.map((d) => ({ id: d.deviceId, cells: [
              d.name,
              d.principal,
              d.role,
              d.certificate ? "machine" : d.passkey ? `passkey${d.passkey.backupEligible ? ", may be copied" : ""}` : d.address.startsWith("http://") ? "browser, denies only" : "browser",
              `${when(d.pairedAt)} by ${d.pairedBy}`,
              d.revokedAt ? `revoked ${when(d.revokedAt)}` : when(d.expiresAt),
              d.revokedAt ? (
                ""
              ) : (
                <Act
                  key="revoke"
                  of={d.deviceId}
                  what={`${d.name} of ${d.principal}`}
                  name="Revoke"
                  sure="Revoke now"
                  again={["devices"]}
                  needs={DeviceService.method.revokeDevice}
                  run={() => devices.revokeDevice({ deviceId: d.deviceId })}
                />
              ),
            ] }))}
          />
        )}
      </Asked>
    </>
  );
}

export function Access() {
  const me = useAsk(["me"], () => accesses.whoAmI({}), 30_000);
  const users = useAsk(["users"], () => accesses.listUsers({}));
  const keys = useAsk(["operators"], () => accesses.listOperators({}));
  const tokens = useAsk(["tokens"], () => accesses.listTokens({}));
  const roles = useAsk(["roles"], () => accesses.listRoles({}), 60_000);
  return (
    <>
      <h1>Access</h1>
      <Asked q={me}>
        {(r) => (
          <Facts
            of={[
              ["You are", r.me?.principal ?? ""],
              ["Role", r.me?.role ?? ""],
              ["Without a signature", r.me?.permissions.join(", ") ?? ""],
            ]}
          />
        )}
      </Asked>
      <h2>People</h2>
      <Asked q={users}>
        {(r) => (
          <Table
            label="People"
            empty="Nobody is known."
            head={["Who", "Role", "Workspaces", "Added", "Removed"]}
            rows={r.users.map((u) => ({ id: u.principal, cells: [u.principal, u.role, u.workspaces.join(", ") || "all", when(u.addedAt), u.removedAt ? when(u.removedAt) : ""] }))}
          />
        )}
      </Asked>
      <h2>Keys</h2>
      <Asked q={keys}>
        {(r) => (
          <Table
            label="Keys"
            empty="No key is known."
            head={["Key", "Whose", "Role", "Separation", "Removed"]}
            rows={r.operators.map((o) => ({ id: o.keyId, cells: [o.keyId, o.principal, o.role, o.approverSeparation, o.removedAt ? when(o.removedAt) : ""] }))}
          />
        )}
      </Asked>
      <h2>Tokens</h2>
      <Asked q={tokens}>
        {(r) => (
          <Table
            label="Tokens"
            empty="No token was made."
            head={["Name", "For", "Scopes", "Used", "Until", ""]}
            rows={r.tokens.map((t) => ({ id: t.tokenId, cells: [
              t.name,
              t.principal,
              t.scopes.join(", "),
              t.usedAt ? when(t.usedAt) : "never",
              t.revokedAt ? `revoked ${when(t.revokedAt)}` : when(t.expiresAt),
              t.revokedAt ? (
                ""
              ) : (
                <Act
                  key="revoke"
                  of={t.tokenId}
                  what={`${t.name} for ${t.principal}`}
                  name="Revoke"
                  sure="Revoke now"
                  again={["tokens"]}
                  needs={AccessService.method.revokeToken}
                  run={() => accesses.revokeToken({ tokenId: t.tokenId })}
                />
              ),
            ] }))}
          />
        )}
      </Asked>
      <h2>Roles</h2>
      <Asked q={roles}>
        {(r) => <Table label="Roles" empty="" head={["Role", "May"]} rows={r.roles.map((x) => ({ id: x.role, cells: [x.role, x.permissions.join(", ")] }))} />}
      </Asked>
    </>
  );
}

export function Agents() {
  const agents = useAsk(["agents"], () => accesses.listAgents({}));
  const servers = useAsk(["upstreams"], () => upstreams.listUpstreams({}));
  return (
    <>
      <h1>Agents and MCP servers</h1>
      <Asked q={agents}>
        {(r) => (
          <Table
            label="Agents"
            empty="No agent is named; those that come without a name are agent:local."
            head={["Agent", "Whose", "Added", "Removed"]}
            rows={r.agents.map((a) => ({ id: a.principal, cells: [a.principal, a.owner, when(a.addedAt), a.removedAt ? when(a.removedAt) : ""] }))}
          />
        )}
      </Asked>
      <h2>MCP servers</h2>
      <Asked q={servers}>
        {(r) => (
          <>
            {r.upstreams.length === 0 && (
              <p className="empty">
                No server is added: <code>palyra mcp add NAME -- CMD</code>.
              </p>
            )}
            {r.upstreams.map((u) => (
              <Server key={u.name} of={u} />
            ))}
          </>
        )}
      </Asked>
    </>
  );
}

// Server is one MCP server with its tools, and what they say of themselves.
function Server({ of }: { of: Upstream }) {
  const q = useAsk(["upstreams", of.name], () => upstreams.getUpstream({ name: of.name }));
  return (
    <section className="note" aria-label={of.name}>
      <h3>
        <Text of={of.name} /> <span className="faint">{of.state}</span>
      </h3>
      <Facts
        of={[["Server", of.server], ["Started by", of.command.join(" ") || of.url], ["Fault", of.fault], ["Reaches", of.egress.join(", ")]]}
      />
      <Asked q={q}>
        {({ upstream: u }) => (
          <Table
            label={`Tools of ${of.name}`}
            empty="It has no tool."
            head={["Tool", "What it says of itself", "State", ""]}
            rows={(u?.tools ?? []).map((t) => ({
              id: `${t.name} ${t.digest}`,
              cells: [t.name, <Says key="says" of={t} />, t.why ? `${t.state}: ${t.why}` : t.state, approval(of.name, t)],
            }))}
          />
        )}
      </Asked>
    </section>
  );
}

// Says is what a tool's digest binds.
function Says({ of }: { of: UpstreamTool }) {
  return (
    <>
      {of.title && <Text of={of.title} />}
      <Block of={of.description || "nothing"} label="Description" />
      <Json of={of.inputSchema} label="Input" />
      {of.claims.length > 0 && <Text of={`It claims: ${of.claims.join(", ")}`} />}
      <div className="faint">{of.digest}</div>
    </>
  );
}

function approval(name: string, t: UpstreamTool): ReactNode {
  if (t.state !== "quarantined") {
    return "";
  }
  return (
    <Act
      key="approve"
      of={`${name} ${t.name} ${t.digest}`}
      what={`${t.name}, ${t.digest}`}
      name="Approve"
      sure="Approve as it is shown"
      again={["upstreams"]}
      needs={McpService.method.approveUpstream}
      run={() => upstreams.approveUpstream({ name, digests: [t.digest] })}
    />
  );
}
