import { useEffect, useState } from "react";
import { RunService, type TapeEntry } from "../gen/palyra/v1/run_pb";
import { ToolService } from "../gen/palyra/v1/tool_pb";
import { asProblem, type Problem, runs, tools } from "../rpc";
import { Act, Asked, Facts, Table, useAsk } from "../ui/parts";
import { Block, Text } from "../ui/text";
import { when } from "../ui/time";
import { Trouble } from "../ui/trouble";

export function Runs({ id }: { id?: string }) {
  if (!id) {
    return <All />;
  }
  const [kind, name] = id.split(":");
  return kind === "run" ? <OneRun key={id} id={name ?? ""} /> : <OneCall key={id} id={name ?? id} />;
}

const at = (kind: string, id: string) => `#/runs/${encodeURIComponent(`${kind}:${id}`)}`;

function All() {
  const q = useAsk(["runs"], () => runs.listRuns({ limit: 50n }));
  const calls = useAsk(["calls"], () => tools.listCalls({ limit: 100n }), 2_000);
  return (
    <>
      <h1>Runs</h1>
      <Asked q={q}>
        {(r) => (
          <Table
            label="Runs"
            empty="No agent of Palyra's own has run here; calls of other agents are below."
            head={["Begun", "Who", "Title", "State", "Calls", ""]}
            rows={r.runs.map((x) => ({ id: x.runId, cells: [
              when(x.createdAt),
              x.principal,
              x.title || "–",
              x.state,
              x.calls.toString(),
              <a key="open" href={at("run", x.runId)}>
                Show
              </a>,
            ] }))}
          />
        )}
      </Asked>
      <h2>Calls</h2>
      <Asked q={calls}>
        {(r) => (
          <Table
            label="Calls"
            empty="No call was made yet."
            head={["Proposed", "Who", "What", "State", "Outcome", ""]}
            rows={r.calls.map((c) => ({ id: c.callId, cells: [
              when(c.proposedAt),
              c.proposal?.principal ?? "",
              c.detail?.summary || c.proposal?.tool || "",
              c.state,
              c.outcome ? `${c.outcome.outcome}${c.outcome.reasonCode ? ` (${c.outcome.reasonCode})` : ""}` : "",
              <a key="open" href={at("call", c.callId)}>
                Show
              </a>,
            ] }))}
          />
        )}
      </Asked>
    </>
  );
}

function OneCall({ id }: { id: string }) {
  const q = useAsk(["calls", id], () => tools.getCall({ callId: id, printed: true, printedLast: true }), 2_000);
  return (
    <>
      <p>
        <a href="#/runs">All runs and calls</a>
      </p>
      <Asked q={q}>
        {({ call: c, printed }) => (
          <>
            <h1>
              <Text of={c?.detail?.summary || c?.proposal?.tool || id} />
            </h1>
            <ol className="timeline" aria-label="The path of the call">
              <li>
                proposed {when(c?.proposedAt)} by <Text of={c?.proposal?.principal ?? ""} /> ({c?.proposal?.door})
              </li>
              {c?.verdict && (
                <li>
                  judged: <strong>{c.verdict.effect}</strong>, <Text of={c.verdict.reason || c.verdict.policies.map((p) => p.id).join(", ")} />
                </li>
              )}
              {c?.approvalId && (
                <li>
                  <a href={`#/approvals/${encodeURIComponent(c.approvalId)}`}>asked</a>
                  {c.decision && (
                    <>
                      : {c.decision.answer} by <Text of={c.decision.by} />
                    </>
                  )}
                </li>
              )}
              {c?.granted && <li>granted at entry {c.granted.seq.toString()} of the journal</li>}
              {c?.outcome && (
                <li>
                  {c.outcome.outcome} {when(c.finishedAt)}
                  {c.outcome.reason && (
                    <>
                      : <Text of={c.outcome.reason} />
                    </>
                  )}
                </li>
              )}
            </ol>
            <Facts
              of={[
                ["Call", id],
                ["Remedy", c?.outcome?.remedy ?? ""],
                ["Exit code", c?.outcome?.outcome === "finished" ? c.outcome.exitCode.toString() : ""],
                ["Effects", c?.outcome?.effects ?? ""],
                ["See", <Links key="see" id={id} />],
              ]}
            />
            {!c?.outcome && (
              <Act of={id} what={c?.detail?.summary || id} name="Cancel" sure="End now" again={["calls", id]} needs={ToolService.method.cancelCall} run={() => tools.cancelCall({ callId: id })} />
            )}
            {printed && printed.data.length > 0 && <Block label="Printed" of={new TextDecoder().decode(printed.data)} />}
            {c?.outcome?.stdout && <Block label="Output" of={c.outcome.stdout} />}
            {c?.outcome?.stderr && <Block label="Errors" of={c.outcome.stderr} />}
          </>
        )}
      </Asked>
    </>
  );
}

function Links({ id }: { id: string }) {
  const name = encodeURIComponent(id);
  return (
    <>
      <a href={`#/changes/${name}`}>changes</a> · <a href={`#/policy/${name}`}>why</a> · <a href={`#/journal/${name}`}>evidence</a>
    </>
  );
}

function OneRun({ id }: { id: string }) {
  const q = useAsk(["runs", id], () => runs.getRun({ runId: id }), 2_000);
  const tape = useTape(id);
  return (
    <>
      <p>
        <a href="#/runs">All runs and calls</a>
      </p>
      <Asked q={q}>
        {({ run: r }) => (
          <>
            <h1>
              <Text of={r?.title || id} />
            </h1>
            <Facts
              of={[
                ["Run", id],
                ["Who", r?.principal ?? ""],
                ["Where", r?.workspace ?? ""],
                ["Provider", `${r?.provider ?? ""} ${r?.model ?? ""}`],
                ["State", r?.state ?? ""],
                ["Reason", r?.reason ?? ""],
                ["Tokens", `${r?.inputTokens ?? 0n} in, ${r?.outputTokens ?? 0n} out`],
              ]}
            />
            {!r?.endedAt && <Act of={id} what={r?.title || id} name="Cancel" sure="End now" again={["runs", id]} needs={RunService.method.cancelRun} run={() => runs.cancelRun({ runId: id })} />}
          </>
        )}
      </Asked>
      {tape.problem && <Trouble problem={tape.problem} />}
      <ol className="timeline" aria-label="Tape">
        {tape.entries.map((e) => (
          <li key={e.seq.toString()}>
            <Entry e={e} />
          </li>
        ))}
      </ol>
    </>
  );
}

// useTape follows a run's tape, from its beginning, and goes on where it broke off.
function useTape(id: string): { entries: TapeEntry[]; problem?: Problem } {
  const [entries, setEntries] = useState<TapeEntry[]>([]);
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    const end = new AbortController();
    const all: TapeEntry[] = [];
    const follow = async () => {
      for (;;) {
        try {
          for await (const m of runs.attachRun({ runId: id, afterSeq: all.at(-1)?.seq ?? 0n }, { signal: end.signal })) {
            if (m.entry) {
              all.push(m.entry);
              setEntries([...all]);
              setProblem(undefined);
            }
          }
          return;
        } catch (e) {
          if (end.signal.aborted) {
            return;
          }
          const p = asProblem(e);
          setProblem(p);
          if (p.code !== "unavailable") {
            return;
          }
          await new Promise((done) => setTimeout(done, 1_000));
        }
      }
    };
    void follow();
    return () => end.abort();
  }, [id]);
  return { entries, problem };
}

function Entry({ e }: { e: TapeEntry }) {
  const v = e.event;
  switch (v.case) {
    case "modelText":
      return <Block label="Model" of={v.value.text} />;
    case "toolProposed":
      return (
        <>
          proposes <a href={at("call", v.value.callId)}>{v.value.tool}</a> <Text of={v.value.arguments} />
        </>
      );
    case "toolJudged":
      return (
        <>
          judged {v.value.effect} <Text of={v.value.reason} />
        </>
      );
    case "approvalRequested":
      return (
        <a href={`#/approvals/${encodeURIComponent(v.value.approvalId)}`}>
          asks: <Text of={v.value.summary} />
        </a>
      );
    case "approvalResolved":
      return (
        <>
          {v.value.answer} by <Text of={v.value.by} />
        </>
      );
    case "toolOutput":
      return <Block label="Output" of={new TextDecoder().decode(v.value.data)} />;
    case "toolFinished":
    case "runFinished":
      return (
        <>
          {v.case === "runFinished" ? "the run" : "the call"} {v.case === "runFinished" ? v.value.state : v.value.outcome}{" "}
          <Text of={v.value.reason} />
        </>
      );
    default:
      return <>{v.case ?? "unknown"}</>;
  }
}
