// One question: what it does, what it can reach, what is unusual, what an answer covers. Then the answers.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Approval, ApprovalsService } from "../gen/palyra/v1/approvals_pb";
import type { Plan } from "../gen/palyra/v1/word_pb";
import { approvals, asProblem, type Problem } from "../rpc";
import { when } from "../ui/time";
import { Argument, Block, Diff, Text } from "../ui/text";
import { Trouble } from "../ui/trouble";
import { Answerer, useAnswerer } from "../device/answerer";
import { onlyDenies } from "../device/beyond";
import { may, useRights } from "../device/rights";
import { useArmed } from "./armed";
import { useFeed } from "./feed";
import { notPublic } from "./hosts.ts";
import { Whole, widening } from "./room";

export function Detail({ id }: { id: string }) {
  const feed = useFeed();
  const live = feed.pending.find((a) => a.approvalId === id) ?? feed.settled.get(id);
  const q = useQuery({ queryKey: ["approval", id, !!live?.decision], queryFn: () => approvals.getApproval({ approvalId: id }), initialData: undefined });
  const a = q.data?.approval ?? live;
  if (!a) {
    return q.error ? <Trouble problem={asProblem(q.error)} /> : <p role="status">Asking the daemon…</p>;
  }
  return <Question key={`${id} ${a.planDigest} ${a.decision ? "settled" : "pending"}`} a={a} />;
}

function Question({ a }: { a: Approval }) {
  const p = a.prompt;
  return (
    <article className="question" aria-labelledby="question-title" data-testid="question">
      <h2 id="question-title">
        <Text of={p?.title || p?.summary || a.subjectId} />
      </h2>
      <p className="meta">
        <span className={`risk ${level(p?.risk?.level)}`}>{level(p?.risk?.level)} risk</span> <Text of={a.principal} /> ·{" "}
        {when(a.requestedAt)}
        {!a.decision && a.expiresAt && <> · answers until {when(a.expiresAt)}</>}
      </p>
      {p?.summary && p.summary !== p.title && (
        <p>
          <Text of={p.summary} />
        </p>
      )}
      {a.plan && <Does plan={a.plan} />}
      {a.plan && <Widening plan={a.plan} />}
      {p?.diff && <Diff of={p.diff} />}
      {a.plan?.contentNotShown && <p className="warn">Not all of what it would write is in the diff: see the arguments below.</p>}
      {a.leftOut && <p className="warn">Parts of this question are no longer kept, since nobody allowed it.</p>}
      <Facts a={a} />
      {a.decision ? <Settled a={a} /> : <Answers a={a} />}
      <details>
        <summary>Everything that the answer binds</summary>
        {a.plan && <Whole plan={a.plan} />}
        <dl className="facts">
          <dt>Plan digest</dt>
          <dd>
            <code data-testid="digest">{a.planDigest}</code>
          </dd>
          <dt>Approval</dt>
          <dd>
            <code>{a.approvalId}</code>
          </dd>
          <dt>Why asked</dt>
          <dd>
            <Block of={p?.explanation ?? ""} label="Why asked" />
          </dd>
          <dt>Policies</dt>
          <dd>
            <Text of={a.policies.join(", ") || "–"} />
          </dd>
        </dl>
      </details>
    </article>
  );
}

const levels = ["low", "medium", "high", "critical"];

// level takes what it does not know for the worst.
function level(l?: string): string {
  return l && levels.includes(l) ? l : "critical";
}

// Widening is what an answer gives beyond the command; it is never folded away.
function Widening({ plan }: { plan: Plan }) {
  const all = widening(plan);
  return (
    all.length > 0 && (
      <ul className="warn widening" aria-label="Beyond the command">
        {all.map((w) => (
          <li key={w}>
            <Text of={w} />
          </li>
        ))}
      </ul>
    )
  );
}

function Does({ plan }: { plan: Plan }) {
  if (plan.argv.length === 0) {
    return null;
  }
  return (
    <p className="command" aria-label="Command">
      {plan.argv.map((arg, i) => (
        // biome-ignore lint: arguments have no other name
        <span key={i}>
          <Argument of={arg} />{" "}
        </span>
      ))}
    </p>
  );
}

const folded = new Set(["Reads", "Writes"]); // long lists of the usual; hosts, keys and what is unusual stand whole

function Facts({ a }: { a: Approval }) {
  const { plan, prompt } = a;
  const rows: [string, string[]][] = [
    ["In", [plan?.cwd || plan?.workspace?.path || ""]],
    ["Reads", plan?.reads ?? []],
    ["Writes", plan?.writes ?? []],
    ["Removes", plan?.removes ?? []],
    ["Reaches", (plan?.egress ?? []).map((h) => (notPublic(h) ? `${h} (not a public address)` : h))],
    ["Secrets", plan?.bindings ?? []],
    ["Keys", plan?.signers ?? []],
    ["Runs in", [plan?.tier ? `tier ${plan.tier}${plan.profile ? `, ${plan.profile}` : ""}` : ""]],
    ["Unusual", prompt?.risk?.factors ?? []],
    ["Note", prompt?.notes ?? []],
    ["Why asked", [prompt?.explanation.split("\n")[0] ?? ""]],
    ["An answer covers", prompt?.covers.split("\n") ?? []],
  ];
  return (
    <dl className="facts">
      {rows
        .map(([name, all]) => [name, all.filter((t) => t !== "")] as const)
        .filter(([, all]) => all.length > 0)
        .map(([name, all]) => (
          <div key={name} className="fact">
            <dt>{name}</dt>
            <dd>
              {all.slice(0, folded.has(name) ? 6 : undefined).map((t, i) => (
                // biome-ignore lint: facts have no other name
                <div key={i}>
                  <Text of={t} />
                </div>
              ))}
              {folded.has(name) && all.length > 6 && <Rest all={all.slice(6)} />}
            </dd>
          </div>
        ))}
    </dl>
  );
}

function Rest({ all }: { all: string[] }) {
  return (
    <details>
      <summary>{all.length} more</summary>
      {all.map((t, i) => (
        // biome-ignore lint: facts have no other name
        <div key={i}>
          <Text of={t} />
        </div>
      ))}
    </details>
  );
}

function Settled({ a }: { a: Approval }) {
  const d = a.decision;
  return (
    <p className={`settled ${d?.answer ?? ""}`} role="status" data-testid="settled">
      <strong>{d?.answer === "allow" ? "Allowed" : d?.answer === "deny" ? "Denied" : <Text of={d?.answer ?? "?"} />}</strong>
      {d?.answer === "allow" && d.scope && <>, {d.scope}</>}
      {d?.by && (
        <>
          {" "}
          by <Text of={d.by} /> ({d.method})
        </>
      )}
      {d?.reason && (
        <>
          : <Text of={d.reason} />
        </>
      )}
    </p>
  );
}

interface Wish {
  answer: string;
  scope?: string;
  ttlMs?: bigint;
  widen?: string;
}

function Answers({ a }: { a: Approval }) {
  const answerer = useAnswerer();
  const paired = answerer.chosen;
  const armed = useArmed();
  const [busy, setBusy] = useState(false);
  const [reason, setReason] = useState("");
  const [time, setTime] = useState("1800000");
  const [problem, setProblem] = useState<Problem>();
  const decide = async (w: Wish) => {
    setBusy(true);
    setProblem(undefined);
    try {
      await approvals.decideApproval({ approvalId: a.approvalId, planDigest: a.planDigest, method: "console", reason, ...w });
    } catch (e) {
      setProblem(asProblem(e));
    } finally {
      setBusy(false);
    }
  };
  const decides = may(useRights(), ApprovalsService.method.decideApproval);
  const off = armed !== "armed" || busy || !paired || !decides;
  const lasting = !onlyDenies && !a.need?.fresh && !a.plan?.effects;
  const allow = a.plan?.effects ? "Keep" : "Allow";
  return (
    <section className="answers" aria-label="Answer">
      <div className="row">
        <button type="button" className="deny" disabled={off} onClick={() => decide({ answer: "deny" })}>
          {a.plan?.effects ? "Drop" : "Deny"}
        </button>
        {!onlyDenies && (
          <button type="button" className="allow" disabled={off} onClick={() => decide({ answer: "allow", scope: "once" })}>
            {allow} once
          </button>
        )}
        {lasting && (
          <>
            <button type="button" disabled={off} onClick={() => decide({ answer: "allow", scope: "session" })}>
              {allow} for this session
            </button>
            <span className="joined">
              <button type="button" disabled={off} onClick={() => decide({ answer: "allow", scope: "timeboxed", ttlMs: BigInt(time) })}>
                {allow} for
              </button>
              <select aria-label="Time" value={time} onChange={(e) => setTime(e.target.value)}>
                <option value="600000">10 minutes</option>
                <option value="1800000">30 minutes</option>
                <option value="7200000">2 hours</option>
                <option value="28800000">8 hours</option>
              </select>
            </span>
          </>
        )}
      </div>
      {lasting && (a.prompt?.options.length ?? 0) > 0 && (
        <ul className="wide">
          {a.prompt?.options
            .filter((o) => o.name !== "exact")
            .map((o) => (
              <li key={o.name}>
                <button
                  type="button"
                  disabled={off}
                  onClick={() => decide({ answer: "allow", scope: "timeboxed", ttlMs: BigInt(time), widen: o.name })}
                >
                  {allow} wider
                </button>{" "}
                <Text of={o.label} />
                {o.saves > 0n && <span className="faint"> (would have saved {o.saves.toString()} questions lately)</span>}
              </li>
            ))}
        </ul>
      )}
      <label>
        Reason <input name="reason" value={reason} maxLength={500} onChange={(e) => setReason(e.target.value)} />
      </label>
      {paired && !decides && <p className="faint">Your role looks; it does not answer. An approver does.</p>}
      {paired && decides && armed === "untouched" && <p className="faint">The buttons work once you have moved, scrolled, tapped or typed on this page.</p>}
      {onlyDenies && (
        <p className="faint">
          Over plain HTTP this browser denies and no more, since others on the way could have made this page. To allow: answer on the
          daemon's machine, or by HTTPS (<code>console.https_listen</code>).
        </p>
      )}
      <Answerer of={answerer} />
      {!paired && <p className="faint">This browser has no key: it looks. Pair it, or answer with <code>palyra approvals decide</code>.</p>}
      {problem && <Trouble problem={problem} />}
    </section>
  );
}
