// What the sections are made of.
import { type UseQueryResult, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import type { DescMethod } from "@bufbuild/protobuf";
import { usePaired } from "../device/pairing";
import { may, useRights } from "../device/rights";
import { asProblem, type Problem } from "../rpc";
import { pieces, visible } from "./show";
import { Lines, Text } from "./text";
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

// Row is the cells of a row, and what tells it from the others for as long as it is there: never its place.
export interface Row {
  id: string;
  cells: ReactNode[];
}

// Table is a table of cells; text in it comes from outside.
export function Table({ head, rows, empty, label }: { head: string[]; rows: Row[]; empty: string; label: string }) {
  const met = new Map<string, number>(); // rows that are alike get a number
  const key = (id: string) => {
    const n = met.get(id) ?? 0;
    met.set(id, n + 1);
    return `${n} ${id}`;
  };
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
          {rows.map(({ id, cells }) => (
            <tr key={key(id)}>
              {cells.map((c, j) => (
                // biome-ignore lint: cells are named by their column
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

interface Action {
  of: string; // what is acted on, by its digest or id: a first press never holds for another
  what: string; // the same, for people
  name: string;
  sure: string;
  needs: DescMethod; // what the daemon is asked for
  run: () => Promise<unknown>;
  again: unknown[];
}

const pause = 400; // between the two presses: one that is double asks, and does nothing

// Act is a button that changes something: a first press asks, a second one does it, signed by this browser's key. What
// it acts on is a part of what it is: when that becomes another, the question is asked anew.
export function Act(a: Action) {
  return <Asking key={a.of} {...a} />;
}

function Asking({ what, name, sure, run, again, needs }: Action) {
  const paired = usePaired();
  const rights = useRights();
  const mayNot = !!paired && !may(rights, needs);
  const queries = useQueryClient();
  const [asked, setAsked] = useState<() => Promise<unknown>>(); // what the first press was for
  const [ready, setReady] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    setReady(false);
    const t = asked && setTimeout(() => setReady(true), pause);
    return () => clearTimeout(t);
  }, [asked]);
  const act = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      await asked?.();
    } catch (e) {
      setProblem(asProblem(e));
    }
    setBusy(false);
    setAsked(undefined);
    await queries.invalidateQueries({ queryKey: again });
  };
  const { head, left, tail } = pieces(visible(what), 120);
  return (
    <span className="act">
      {asked ? (
        <>
          <button type="button" className="deny" disabled={busy || !ready} onClick={act}>
            {sure}: <bdi className="outside">{left > 0 ? `${head} ⋯ ${left} characters ⋯ ${tail}` : head}</bdi>
          </button>{" "}
          <button type="button" disabled={busy} onClick={() => setAsked(undefined)}>
            No
          </button>
        </>
      ) : (
        <button
          type="button"
          disabled={!paired || mayNot || busy}
          title={!paired ? "this browser looks: pair it" : mayNot ? `your role, ${rights?.role}, may not` : undefined}
          onClick={() => setAsked(() => run)}
        >
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
      <Lines
        of={text.split("\n")}
        most={2000}
        show={(line, i) => (
          <span key={i}>
            <Text of={line} />
            {"\n"}
          </span>
        )}
      />
    </pre>
  );
}
