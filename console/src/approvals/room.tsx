// What an answer binds beyond the command: what widens it, which is always on the screen, and all of it.
import type { ReactNode } from "react";
import type { Enforcement, Limits, Plan } from "../gen/palyra/v1/word_pb";
import { notPublic } from "./hosts.ts";
import { Argument, Block, Lines, Text } from "../ui/text";

// widening says what makes a run more than it looks like, in the words of the command.
export function widening(p: Plan): string[] {
  const out: string[] = [];
  if ((p.$unknown ?? []).length > 0) {
    out.push("A part of this plan is newer than this page and is not shown: reload it, or read palyra approvals show");
  }
  if (p.guardedWrites.length > 0) {
    out.push(`It writes what other programs obey: ${p.guardedWrites.join(", ")}`);
  }
  if (p.lasting) {
    out.push("What it replaces may be gone for good: not all of it can be undone later");
  }
  const near = p.egress.filter(notPublic);
  if (near.length > 0) {
    out.push(`It reaches what is not a public address: ${near.join(", ")}`);
  }
  if (p.effects) {
    return out; // the run is over; what is asked is whether its changes stay
  }
  if (p.workspace?.path && !p.workspace.known) {
    out.push("NEW workspace: no operator registered it");
  }
  if (p.agentSocket) {
    out.push("It is an agent itself: it may call tools for as long as it runs, in this workspace and with what it starts there");
  }
  for (const w of p.agentWithin) {
    out.push(w === "*" ? "It may work in EVERY workspace that its caller reaches" : `It may work in ${w} too`);
  }
  if (p.unixSockets) {
    out.push("It reaches unix sockets that it can see: programs outside the sandbox may answer there");
  }
  if (p.asks) {
    out.push("The profile opens what is sealed otherwise: an answer is for this run only");
  }
  if (p.tier === "C" && p.seals.length === 0 && p.staging?.writes !== "staged") {
    out.push("Sealed: nothing. It may leave hooks and settings that other programs run");
  }
  if (p.staging?.writes === "live") {
    out.push(`It writes to the workspace directly, before anybody sees what${p.staging.why ? `: ${p.staging.why}` : ""}`);
  }
  for (const at of p.publish) {
    out.push(`It answers at a port of this machine (outside:inside): ${at}`);
  }
  if (p.stdin === "live") {
    out.push("Stdin is LIVE: fed while it runs; nobody has seen it, and no digest binds it");
  }
  if (p.terminal) {
    out.push("It runs on a terminal of its own");
  }
  return [...out, ...loose(p)];
}

// loose says what nothing holds.
function loose(p: Plan): string[] {
  const e = p.enforcement;
  if (p.tier === "unsandboxed") {
    return ["NO SANDBOX: the agent does it itself, with all its rights; Palyra neither holds it nor sees what it does"];
  }
  if (!e || (!e.mode && e.mechanisms.length === 0 && Object.keys(e.limits).length === 0)) {
    return p.executable ? ["NOT enforced: anything. The plan promises nothing about how it is held"] : [];
  }
  const out: string[] = [];
  if (e.mode === "preflight") {
    out.push("The network is checked before it runs, NOT enforced while it runs");
  } else if (e.mode !== "strict") {
    out.push(`The network is NOT enforced${p.tier === "C" ? ": it may reach any public host; what it reaches is on record" : ""}`);
  }
  const polled = held(e, (how) => how === "polled");
  if (polled.length > 0 && polled.join() !== "disk") {
    out.push(`Only looked at from time to time, not held by the kernel: ${polled.join(", ")}`);
  }
  const none = held(e, (how) => how === "none" || how === "");
  if (none.length > 0) {
    out.push(`NOT enforced: ${none.join(", ")}`);
  }
  return out;
}

function held(e: Enforcement, when: (how: string) => boolean): string[] {
  return Object.keys(e.limits)
    .sort()
    .filter((name) => when(e.limits[name] ?? ""));
}

type Fields = Omit<Plan, "$typeName" | "$unknown">;
type Part = [label: string, show: (p: Plan) => ReactNode];

// parts names every field of a plan: one that nobody shows is an error of this build.
const parts: { [K in keyof Required<Fields>]: Part } = {
  tool: ["Tool", (p) => <Text of={p.tool} />],
  source: ["Comes from", (p) => p.source && <Text of={p.source} />],
  capabilities: ["Capabilities", (p) => list(p.capabilities)],
  readOnly: ["Only looks", (p) => p.readOnly && "yes"],
  workspace: ["Workspace", (p) => place(p)],
  cwd: ["Directory", (p) => p.cwd && <Argument of={p.cwd} />],
  executable: [
    "Program",
    (p) =>
      p.executable && (
        <>
          <Argument of={p.executable.path} /> <code className="faint">{p.executable.digest}</code>
          {p.executable.sealed && " (a sealed copy: the command could change this file)"}
        </>
      ),
  ],
  argv: ["Command", (p) => list(p.argv)],
  env: ["Environment", (p) => many(p.env, (e) => [<Argument key="n" of={e.name} />, "=", e.secret ? <em key="s">secret {e.digest}</em> : <Argument key="v" of={e.value} />])],
  stdin: ["Stdin", (p) => (p.stdin ? <Text of={p.stdin} /> : p.executable && "none")],
  terminal: ["Terminal", (p) => p.terminal && "one of its own"],
  inputs: [
    "Inputs",
    (p) => many(p.inputs, (f) => [<Argument key="p" of={f.path} />, " ", <code key="d" className="faint">{f.digest || `does not exist, mode ${f.mode.toString(8)}`}</code>]),
  ],
  reads: ["Reads", (p) => list(p.reads)],
  writes: ["Writes", (p) => list(p.writes)],
  removes: ["Removes", (p) => list(p.removes)],
  guardedWrites: ["Obeyed by others", (p) => list(p.guardedWrites)],
  lasting: ["For good", (p) => p.lasting && "what it replaces cannot all be undone later"],
  tier: ["Tier", (p) => <Text of={p.tier} />],
  profile: ["Profile", (p) => p.profile && <Text of={p.profile} />],
  asks: ["Asks", (p) => p.asks && "every run is asked about"],
  mounts: ["Mounts", (p) => many(p.mounts, (m) => [<Argument key="s" of={m.source} />, " at ", <Argument key="t" of={m.target} />, m.writable ? <strong key="w"> writable</strong> : " read only"])],
  files: ["Files", (p) => many(p.files, (f) => [<Argument key="t" of={f.target} />, " read only", <Block key="b" of={f.text} label={f.target} />])],
  links: ["Links", (p) => many(p.links, (l) => [<Argument key="p" of={l.path} />, " leads to ", <Argument key="t" of={l.target} />])],
  seals: ["Sealed", (p) => (p.seals.length > 0 ? list(p.seals) : p.tier === "C" && "nothing")],
  staging: ["Writes to", (p) => layer(p)],
  egress: ["Hosts", (p) => (p.egress.length > 0 ? list(p.egress) : "none")],
  publish: ["Answers at", (p) => list(p.publish)],
  unixSockets: ["Unix sockets", (p) => p.unixSockets && "those that it can see"],
  bindings: ["Secrets", (p) => list(p.bindings)],
  signers: ["Keys", (p) => list(p.signers)],
  agentSocket: ["Agent", (p) => p.agentSocket && "it is one itself, with a door of its own"],
  agentWithin: ["Works in", (p) => (p.agentWithin.includes("*") ? "EVERY workspace that its caller reaches" : list(p.agentWithin))],
  limits: ["Limits", (p) => bounds(p.limits)],
  enforcement: ["Held by", (p) => p.enforcement && holds(p.enforcement)],
  effects: ["What it did", (p) => p.effects && `${p.effects.created} new, ${p.effects.changed} changed, ${p.effects.removed} removed; list ${p.effects.listSha256}, ${p.effects.omitted} not in it`],
  contentNotShown: ["Not in the diff", (p) => p.contentNotShown && "not all that it would write: see the arguments"],
  masked: ["Masked", (p) => p.masked && "values of secrets; the digest is that of the plan with them"],
  arguments: ["Arguments", (p) => <Block of={p.arguments} label="Arguments" />],
};

// Whole is a plan, field by field.
export function Whole({ plan }: { plan: Plan }) {
  return (
    <dl className="facts" data-testid="whole">
      {Object.values(parts)
        .map(([label, show]) => [label, show(plan)] as const)
        .filter(([, v]) => v !== "" && v !== undefined && v !== null && v !== false)
        .map(([label, v]) => (
          <div key={label} className="fact">
            <dt>{label}</dt>
            <dd>{v}</dd>
          </div>
        ))}
    </dl>
  );
}

function many<T>(all: T[], one: (v: T) => ReactNode): ReactNode {
  return (
    all.length > 0 && (
      <Lines
        of={all}
        most={60}
        show={(v, i) => (
          // biome-ignore lint: parts of a plan, which never changes, are named by their place
          <div key={i}>{one(v)}</div>
        )}
      />
    )
  );
}

function list(all: string[]): ReactNode {
  return many(all, (s) => <Argument of={s} />);
}

function place({ workspace: w, staging }: Plan): ReactNode {
  if (!w?.path) {
    return "";
  }
  return (
    <>
      <Argument of={w.path} /> (as uid {w.owner.toString()}){w.known ? "" : " NEW"}
      {w.repository?.path && (
        <div>
          a work tree of <Argument of={w.repository.path} />,{" "}
          {staging?.writes === "staged" ? "commits and refs, which are judged with the rest" : "read only"}
        </div>
      )}
    </>
  );
}

function layer({ staging: s }: Plan): ReactNode {
  if (!s?.writes) {
    return "";
  }
  const how = s.writes === "staged" ? "a layer, judged when it has ended" : s.writes === "live" ? "the workspace directly" : s.writes;
  return <Text of={[how, s.why, s.review && "a person keeps its changes or not", s.of && `the layer of ${s.of}`].filter(Boolean).join(": ")} />;
}

function bounds(l?: Limits): string {
  const all: [string, bigint | undefined, string][] = [
    ["time", l?.wallMs, "ms"],
    ["CPU", l?.cpuMs, "ms"],
    ["memory", l?.memoryBytes, "bytes"],
    ["processes", l?.processes, ""],
    ["open files", l?.openFiles, ""],
    ["file size", l?.fileBytes, "bytes"],
    ["output", l?.outputBytes, "bytes"],
    ["printed in all", l?.emittedBytes, "bytes"],
    ["written to disk", l?.diskBytes, "bytes"],
  ];
  const set = all.filter(([, n]) => n).map(([name, n, unit]) => `${name} ${n?.toLocaleString("en")} ${unit}`.trim());
  return set.join(", ") || "those of the tier";
}

function holds(e: Enforcement): ReactNode {
  return (
    <>
      <div>
        network: <Text of={e.mode || "NOT enforced"} />
      </div>
      <div>
        <Text of={e.mechanisms.join(", ") || "nothing"} />
      </div>
      {many(held(e, () => true), (name) => (
        <Text of={`${name}: ${e.limits[name] || "none"}`} />
      ))}
    </>
  );
}
