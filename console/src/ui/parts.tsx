// What the sections are made of.
import { type UseQueryResult, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { usePaired } from "../device/pairing";
import { asProblem, type Problem } from "../rpc";
import { Text } from "./text";
import { Trouble } from "./trouble";

// useAsk asks the daemon, and again every few seconds while the page is looked at.
export function useAsk<T>(key: unknown[], ask: () => Promise<T>, every = 5_000): UseQueryResult<T> {
  return useQuery({ queryKey: key, queryFn: ask, refetchInterval: every });
}

// Asked shows an answer, what went wrong, or that it is on its way.
export function Asked<T>({ q, children }: { q: UseQueryResult<T>; children: (v: T) => ReactNode }) {
  return (
    <>
      {q.error && <Trouble problem={asProblem(q.error)} />}
      {q.data !== undefined ? children(q.data) : !q.error && <p role="status">Asking the daemon…</p>}
    </>
  );
}

// Table is a table of cells; text in it comes from outside.
export function Table({ head, rows, empty, label }: { head: string[]; rows: ReactNode[][]; empty: string; label: string }) {
  if (rows.length === 0) {
    return <p className="empty">{empty}</p>;
  }
  return (
    <section className="scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map((h, i) => (
              // biome-ignore lint: columns have no other name
              <th key={i} scope="col">
                {h || <span className="unseen">To do</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, i) => (
            // biome-ignore lint: rows have no other name
            <tr key={i}>
              {cells.map((c, j) => (
                // biome-ignore lint: cells have no other name
                <td key={j}>{typeof c === "string" ? <Text of={c} /> : c}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

// Facts is a list of names and values; empty ones are left out.
export function Facts({ of }: { of: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {of
        .filter(([, v]) => v !== "" && v !== undefined && v !== null && v !== false)
        .map(([name, v]) => (
          <div className="fact" key={name}>
            <dt>{name}</dt>
            <dd>{typeof v === "string" ? <Text of={v} /> : v}</dd>
          </div>
        ))}
    </dl>
  );
}

// Act is a button that changes something: a first press asks, a second one does it, signed by this browser's key.
export function Act({ name, sure, run, again }: { name: string; sure: string; run: () => Promise<unknown>; again: unknown[] }) {
  const paired = usePaired();
  const queries = useQueryClient();
  const [asked, setAsked] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const act = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      await run();
    } catch (e) {
      setProblem(asProblem(e));
    }
    setBusy(false);
    setAsked(false);
    await queries.invalidateQueries({ queryKey: again });
  };
  return (
    <span className="act">
      {asked ? (
        <>
          <button type="button" className="deny" disabled={busy} onClick={act}>
            {sure}
          </button>{" "}
          <button type="button" disabled={busy} onClick={() => setAsked(false)}>
            No
          </button>
        </>
      ) : (
        <button type="button" disabled={!paired || busy} title={paired ? undefined : "this browser looks: pair it"} onClick={() => setAsked(true)}>
          {name}
        </button>
      )}
      {problem && <Trouble problem={problem} />}
    </span>
  );
}

// Json is a JSON text, laid out for people.
export function Json({ of, label }: { of: string; label: string }) {
  let text = of;
  try {
    text = JSON.stringify(JSON.parse(of), null, 2);
  } catch {
    // it is shown as it is
  }
  return (
    <pre className="block" tabIndex={0} aria-label={label}>
      {text.split("\n").slice(0, 2000).map((line, i) => (
        // biome-ignore lint: lines have no other name
        <span key={i}>
          <Text of={line} />
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
