// What a bundle would have said to the calls on record, and rules that would have saved questions.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import type { PolicySuggestion, ReplayReport } from "../gen/palyra/v1/policy_pb";
import { asProblem, policies, type Problem } from "../rpc";
import { Facts, Table } from "../ui/parts";
import { Block, Text } from "../ui/text";
import { Trouble } from "../ui/trouble";

const day = 86_400_000;

// useTold follows one stream at a time: how far it is, and what it told at its end.
function useTold<R>() {
  const [done, setDone] = useState<bigint>();
  const [told, setTold] = useState<R>();
  const [problem, setProblem] = useState<Problem>();
  const run = async (stream: AsyncIterable<{ done: bigint }>, end: (m: never) => R | undefined) => {
    setTold(undefined);
    setProblem(undefined);
    try {
      for await (const m of stream) {
        setDone(m.done);
        const last = end(m as never);
        if (last) {
          setTold(last);
        }
      }
    } catch (e) {
      setProblem(asProblem(e));
    }
    setDone(undefined);
  };
  return { done, told, problem, run };
}

export function Replay({ files, changed }: { files: { [name: string]: string }; changed: boolean }) {
  const replay = useTold<ReplayReport>();
  const suggest = useTold<PolicySuggestion>();
  const [days, setDays] = useState("7");
  const busy = replay.done !== undefined || suggest.done !== undefined;
  const since = () => timestampFromMs(Date.now() - Number(days) * day);
  return (
    <section aria-label="Calls on record">
      <h2>Calls on record</h2>
      <div className="row">
        <label>
          Of the last{" "}
          <select value={days} onChange={(e) => setDays(e.target.value)}>
            <option value="1">day</option>
            <option value="7">7 days</option>
            <option value="30">30 days</option>
          </select>
        </label>
        <button
          type="button"
          disabled={busy}
          onClick={() => replay.run(policies.replayPolicy({ files: changed ? files : {}, since: since() }), (m: { report?: ReplayReport }) => m.report)}
        >
          Judge them again{changed && ", by the text above"}
        </button>
        <button
          type="button"
          disabled={busy}
          onClick={() => suggest.run(policies.suggestPolicy({ since: since() }), (m: { suggestion?: PolicySuggestion }) => m.suggestion)}
        >
          Suggest rules
        </button>
        {busy && <span role="status">{String(replay.done ?? suggest.done)} calls…</span>}
      </div>
      {[replay.problem, suggest.problem].map((p) => p && <Trouble key={p.message} problem={p} />)}
      {replay.told && <Report of={replay.told} />}
      {suggest.told && <Suggested of={suggest.told} />}
    </section>
  );
}

function Report({ of: r }: { of: ReplayReport }) {
  const p = r.prompts;
  return (
    <div data-testid="replayed" role="status">
      <Facts
        of={[
          ["Calls", r.records.toString()],
          ["Answered as before", r.same.toString()],
          ["Questions", `${p?.before ?? 0n} before, ${p?.after ?? 0n} after`],
          ["Cannot be judged again", r.unreplayable > 0n ? r.unreplayable.toString() : ""],
          ["Policies that fail", r.failing > 0n ? r.failing.toString() : ""],
        ]}
      />
      {r.problems.map((x) => (
        <p key={`${x.file}:${x.line}:${x.text}`} className="warn">
          <Text of={`${x.file}:${x.line}: ${x.text}`} />
        </p>
      ))}
      <Table
        label="What would be answered otherwise"
        empty="Nothing would be answered otherwise."
        head={["From", "To", "Calls", "For example"]}
        rows={r.transitions.map((t) => ({
          id: `${t.from} ${t.to}`,
          cells: [t.from, t.to, t.count.toString(), t.calls.slice(0, 3).map((c) => c.command || c.tool).join("; ")],
        }))}
      />
    </div>
  );
}

function Suggested({ of: s }: { of: PolicySuggestion }) {
  return (
    <div data-testid="suggested" role="status">
      {s.rules.length === 0 && <p className="empty">No rule would have saved a question.</p>}
      {s.rules.map((r) => (
        <div key={r.id}>
          <p>
            would have saved {r.saves.toString()} questions: <Text of={r.reason} />
          </p>
          <Block label="Rule" of={r.text} />
        </div>
      ))}
      {s.rules.length > 0 && (
        <p className="faint">
          Put those that you want into a file of the bundle, check it, and apply it; or <code>palyra policy suggest --out DIR</code>.
        </p>
      )}
    </div>
  );
}
