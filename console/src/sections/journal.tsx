import { useState } from "react";
import type { Entry } from "../gen/palyra/v1/journal_pb";
import { asProblem, attestations, journal, type Problem } from "../rpc";
import { Asked, Facts, Json, Table, useAsk } from "../ui/parts";
import { Block, Text } from "../ui/text";
import { Trouble } from "../ui/trouble";
import { Checks } from "./checks";

export function Journal({ id }: { id?: string }) {
  return id ? <Evidence key={id} id={id} /> : <Tail />;
}

const shown = 200n;

async function tail(kind: string): Promise<{ size: bigint; root: string; note: string; entries: Entry[] }> {
  const head = (await journal.getHead({})).head;
  const size = head?.size ?? 0n;
  const entries: Entry[] = [];
  const from = kind ? 1n : size > shown ? size - shown + 1n : 1n;
  for await (const m of journal.tailJournal({ from, kind, limit: kind ? 100_000n : shown })) {
    if (m.entry) {
      entries.push(m.entry);
    }
  }
  return { size, root: head?.root ?? "", note: head?.note ?? "", entries: entries.slice(-Number(shown)).reverse() };
}

function Tail() {
  const [kind, setKind] = useState("");
  const [text, setText] = useState("");
  const q = useAsk(["journal", kind], () => tail(kind));
  return (
    <>
      <h1>Journal</h1>
      <Verify />
      <div className="row">
        <label>
          Kind <input value={kind} placeholder="all" onChange={(e) => setKind(e.target.value.trim())} />
        </label>
        <label>
          Holds <input value={text} onChange={(e) => setText(e.target.value)} />
        </label>
      </div>
      <Asked q={q}>
        {(r) => (
          <>
            <Facts of={[["Entries", r.size.toString()], ["Root", r.root], ["Checkpoint", <Block key="note" of={r.note} label="Checkpoint" />]]} />
            <Table
              label="Entries"
              empty="No entry fits."
              head={["Entry", "Time", "Kind", "Call", "What"]}
              rows={r.entries
                .filter((e) => !text || e.body.includes(text) || e.kind.includes(text) || e.callId.includes(text))
                .map((e) => ({ id: e.seq.toString(), cells: [
                  e.seq.toString(),
                  e.time,
                  e.kind,
                  e.callId ? (
                    <a key="call" href={`#/journal/${encodeURIComponent(e.callId)}`}>
                      {e.callId.slice(-8)}
                    </a>
                  ) : (
                    ""
                  ),
                  <details key="body">
                    <summary>
                      <Text of={e.body.slice(0, 120)} />
                    </summary>
                    <Json of={e.body} label={`Entry ${e.seq}`} />
                  </details>,
                ] }))}
            />
          </>
        )}
      </Asked>
    </>
  );
}

function Verify() {
  const [said, setSaid] = useState("");
  const [problems, setProblems] = useState<string[]>([]);
  const [problem, setProblem] = useState<Problem>();
  const verify = async () => {
    setProblem(undefined);
    setProblems([]);
    try {
      for await (const m of journal.verifyJournal({})) {
        if (m.event.case === "progress") {
          setSaid(`${m.event.value.done} of ${m.event.value.total} entries`);
        } else if (m.event.case === "report") {
          const r = m.event.value;
          setSaid(r.ok ? `whole: ${r.entries} entries, root ${r.root}` : "NOT whole");
          setProblems([...r.problems, ...r.notes]);
        }
      }
    } catch (e) {
      setProblem(asProblem(e));
    }
  };
  return (
    <div className="row">
      <button type="button" onClick={verify}>
        Verify
      </button>
      <span role="status" data-testid="verified">
        {said}
      </span>
      {problems.map((p) => (
        <p key={p} className="warn">
          <Text of={p} />
        </p>
      ))}
      {problem && <Trouble problem={problem} />}
    </div>
  );
}

function Evidence({ id }: { id: string }) {
  const q = useAsk(["attestation", id], () => attestations.getAttestation({ callId: id }), 60_000);
  const lines = useAsk(["journal", "call", id], async () => {
    const all: Entry[] = [];
    for await (const m of journal.tailJournal({ from: 1n, callId: id, limit: 1_000n })) {
      if (m.entry) {
        all.push(m.entry);
      }
    }
    return all;
  });
  return (
    <>
      <p>
        <a href="#/journal">The journal</a>
      </p>
      <h1>Evidence of a call</h1>
      <Asked q={q}>
        {(r) => (
          <>
            <Facts of={[["Attestation", r.attestation?.attestationId ?? ""], ["Digest", r.attestation?.digest ?? ""]]} />
            <p className="faint">
              Check it without this daemon: <code>palyra attest show {id} --json</code>, then <code>palyra-verify --key trust.json outcome.json</code>.
            </p>
            {r.attestation && lines.data && <Checks of={r.attestation} entries={lines.data} />}
            <details>
              <summary>What was signed</summary>
              <Json of={r.attestation?.predicate ?? ""} label="Predicate" />
            </details>
            <details>
              <summary>The envelope</summary>
              <Json of={r.attestation?.envelope ?? ""} label="Envelope" />
            </details>
          </>
        )}
      </Asked>
      <h2>Entries</h2>
      <Asked q={lines}>
        {(all) => (
          <Table
            label="Entries"
            empty="The journal has no entry of it."
            head={["Entry", "Time", "Kind", "What"]}
            rows={all.map((e) => ({ id: e.seq.toString(), cells: [
              e.seq.toString(),
              e.time,
              e.kind,
              <details key="body">
                <summary>
                  <Text of={e.body.slice(0, 120)} />
                </summary>
                <Json of={e.body} label={`Entry ${e.seq}`} />
              </details>,
            ] }))}
          />
        )}
      </Asked>
    </>
  );
}
