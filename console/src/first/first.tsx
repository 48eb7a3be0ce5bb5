// What a person sees who has set nothing up yet: what this is, and what to type next. It goes by itself.
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useRef } from "react";
import { usePaired } from "../device/pairing";
import type { Call } from "../gen/palyra/v1/word_pb";
import { tools, workspaces } from "../rpc";
import { Text } from "../ui/text";
import "./first.css";

// useFirst says whether no agent has called anything here yet; and the first call, once one came while the page was open.
export function useFirst(): { empty: boolean; came?: Call } {
  const began = useRef(false);
  const q = useQuery({
    queryKey: ["first"],
    queryFn: async () => (await tools.listCalls({ limit: 1n })).calls,
    retry: false, // who may not see calls has no first run here
    refetchInterval: (q) => (q.state.data?.length === 0 ? 1_500 : false),
  });
  const empty = q.data?.length === 0;
  if (empty) {
    began.current = true;
  }
  return { empty, came: began.current ? q.data?.[0] : undefined };
}

function Step({ done, name, children }: { done: boolean; name: string; children: ReactNode }) {
  return (
    <li className={done ? "step done" : "step"}>
      <strong>
        {name}
        {done && <span className="good"> – done</span>}
      </strong>
      <div>{children}</div>
    </li>
  );
}

export function First() {
  const paired = usePaired();
  const places = useQuery({ queryKey: ["workspaces"], queryFn: () => workspaces.listWorkspaces({}), refetchInterval: 1_500, retry: false });
  const set = (places.data?.workspaces.length ?? 0) > 0;
  return (
    <section className="first" aria-labelledby="first-title" data-testid="first">
      <h2 id="first-title">Nothing has asked yet</h2>
      <p>
        Palyra stands between agents and this machine. What an agent wants to do is judged first; what nobody allowed yet is asked about
        here, with what it does or did; all of it is on a record that nobody can quietly change.
      </p>
      <ol>
        <Step done={set} name="Set a project up">
          In a terminal, in a project of yours: <code>palyra setup</code>. It asks five questions at most, and can be taken back.
        </Step>
        <Step done={false} name="Start your agent as always">
          Or try it without one: <code>palyra exec -- ls -l</code>. This page sees the first call by itself.
        </Step>
        <Step done={!!paired} name="Answer here">
          This browser looks. To answer in it as well, give it a key of its own: <code>palyra console pair</code>.
        </Step>
      </ol>
      <p className="faint" role="status">
        Waiting for the first agent…
      </p>
    </section>
  );
}

// Came says that the first agent is here.
export function Came({ call }: { call: Call }) {
  return (
    <p className="note" role="status" data-testid="came">
      The first agent is here: <Text of={call.proposal?.principal ?? ""} /> called <Text of={call.proposal?.tool ?? ""} />.{" "}
      <a href={`#/runs/${encodeURIComponent(`call:${call.callId}`)}`}>What became of it</a>
    </p>
  );
}
