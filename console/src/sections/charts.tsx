// How the calls and questions on record look together. All of it is counted from what the lists of the API hold.
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ReactNode } from "react";
import type { Approval } from "../gen/palyra/v1/approvals_pb";
import type { Call } from "../gen/palyra/v1/word_pb";
import { approvals, tools } from "../rpc";
import { Asked, useAsk } from "../ui/parts";
import { Text } from "../ui/text";
import "./charts.css";

const looked = 500; // calls and questions that are counted

export function Charts() {
  const calls = useAsk(["calls", "charts"], () => tools.listCalls({ limit: BigInt(looked) }), 10_000);
  const asked = useAsk(["approvals", "charts"], () => approvals.listApprovals({ filter: { limit: BigInt(looked) } }), 10_000);
  return (
    <div className="charts">
      <Asked q={calls}>{(r) => <OfCalls all={r.calls} />}</Asked>
      <Asked q={asked}>{(r) => <OfQuestions all={r.approvals} />}</Asked>
    </div>
  );
}

const span = (from?: Timestamp, to?: Timestamp): number | undefined => (from && to ? Math.max(0, timestampMs(to) - timestampMs(from)) : undefined);

function OfCalls({ all }: { all: readonly Call[] }) {
  const last = all.length < looked ? `All ${all.length} calls` : `The last ${all.length} calls`;
  const started = all.filter((c) => c.granted && (c.plan?.tier === "B" || c.plan?.tier === "C"));
  const unasked = all.filter((c) => !c.approvalId && c.outcome && !c.decision);
  return (
    <>
      <Columns title={`${last}, by verdict`} of={all.map((c) => ({ at: c.proposedAt, is: c.verdict?.effect || "not judged" }))} />
      <Bars title="The same, by outcome" of={all.map((c) => c.outcome?.outcome || c.state)} />
      <Spans title="From proposal to outcome, where nobody was asked" of={unasked.map((c) => span(c.proposedAt, c.finishedAt))} />
      <Columns title="Sandboxes started, by tier" of={started.map((c) => ({ at: c.proposedAt, is: `tier ${c.plan?.tier}` }))} />
    </>
  );
}

// how names what became of a question.
function how(a: Approval): string {
  const d = a.decision;
  return d ? (d.reused ? "saved: covered by another answer" : d.answer) : "waiting";
}

function OfQuestions({ all }: { all: readonly Approval[] }) {
  const leased = useAsk(["calls", "charts"], () => tools.listCalls({ limit: BigInt(looked) }), 10_000);
  const saved = leased.data?.calls.filter((c) => c.decision?.reused && !c.approvalId).length ?? 0;
  const answered = all.filter((a) => a.decision && !a.decision.reused && ["allow", "deny"].includes(a.decision.answer));
  return (
    <>
      <Bars
        title="Questions asked, and saved by an answer that covered them"
        of={[...all.map(how), ...Array.from({ length: saved }, () => "saved: covered by a lease")]}
      />
      <Spans title="How long answers took" of={answered.map((a) => span(a.requestedAt, a.decision?.at))} />
    </>
  );
}

// counted is how often each word comes, the most frequent first.
function counted(of: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const w of of) {
    counts.set(w, (counts.get(w) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function Rows({ of }: { of: readonly [string, number][] }) {
  const most = Math.max(1, ...of.map(([, n]) => n));
  return of.map(([w, n]) => (
    <div key={w} className="bar">
      <span>
        <Text of={w} />
      </span>
      <meter min={0} max={most} value={n} aria-label={`${w}: ${n}`} />
      <span>{n}</span>
    </div>
  ));
}

function Figure({ title, empty, children }: { title: string; empty: boolean; children: ReactNode }) {
  return (
    <figure aria-label={title}>
      <figcaption>{title}</figcaption>
      {empty ? <p className="empty">None yet.</p> : children}
    </figure>
  );
}

// Bars draws how often each word comes.
function Bars({ title, of }: { title: string; of: readonly string[] }) {
  return (
    <Figure title={title} empty={of.length === 0}>
      <Rows of={counted(of)} />
    </Figure>
  );
}

const steps: readonly [number, string][] = [
  [10, "up to 10 ms"],
  [100, "up to 0.1 s"],
  [1_000, "up to 1 s"],
  [10_000, "up to 10 s"],
  [60_000, "up to a minute"],
  [Number.POSITIVE_INFINITY, "longer"],
];

const spoken = (ms: number) => (ms < 1_000 ? `${ms} ms` : ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`);

// Spans draws how many durations are how long, and names the middle one and the one that nine of ten stay below.
function Spans({ title, of }: { title: string; of: readonly (number | undefined)[] }) {
  const all = of.filter((ms) => ms !== undefined).sort((a, b) => a - b);
  const at = (part: number) => spoken(all[Math.min(all.length - 1, Math.floor(all.length * part))] ?? 0);
  const rows = steps.map(([most, name], i): [string, number] => [name, all.filter((ms) => ms <= most && ms > (steps[i - 1]?.[0] ?? -1)).length]);
  return (
    <Figure title={title} empty={all.length === 0}>
      <p className="faint">
        half within {at(0.5)}, nine of ten within {at(0.9)}
      </p>
      <Rows of={rows.filter(([, n]) => n > 0)} />
    </Figure>
  );
}

const wide = 24; // columns
const tall = 96;

// Columns draws how often each word came, over the time from the first to the last.
function Columns({ title, of }: { title: string; of: readonly { at?: Timestamp; is: string }[] }) {
  const dated = of.flatMap((o) => (o.at ? [{ ms: timestampMs(o.at), is: o.is }] : []));
  const words = counted(dated.map((o) => o.is));
  const first = Math.min(...dated.map((o) => o.ms));
  const step = Math.max(1, Math.max(...dated.map((o) => o.ms)) - first + 1) / wide;
  const columns = Array.from({ length: wide }, (_, i) => dated.filter((o) => Math.floor((o.ms - first) / step) === i));
  const most = Math.max(1, ...columns.map((c) => c.length));
  const from = new Date(first);
  return (
    <Figure title={title} empty={dated.length === 0}>
      <svg className="columns" viewBox={`0 0 ${wide * 10} ${tall}`} preserveAspectRatio="none" role="img" aria-label={words.map(([w, n]) => `${w}: ${n}`).join(", ")}>
        {columns.map((c, i) => {
          let top = tall;
          return words.map(([w], k) => {
            const high = (c.filter((o) => o.is === w).length / most) * tall;
            top -= high;
            return high > 0 && <rect key={`${i} ${w}`} className={tone(w, k)} x={i * 10 + 1} y={top} width={8} height={high} />;
          });
        })}
      </svg>
      <p className="faint">
        {from.toLocaleString()} to now; at most {most} in a column
      </p>
      <ul className="legend">
        {words.map(([w, n], k) => (
          <li key={w}>
            <svg className="key" viewBox="0 0 10 10" aria-hidden="true">
              <rect className={tone(w, k)} width={10} height={10} />
            </svg>{" "}
            <Text of={w} /> {n}
          </li>
        ))}
      </ul>
    </Figure>
  );
}

const tones: { [word: string]: string } = { allow: "good", deny: "bad", ask: "warn" };

function tone(w: string, k: number): string {
  return tones[w] ?? ["mark", "faint", "warn"][k % 3] ?? "faint";
}
