import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { approvals, asProblem } from "../rpc";
import { type Approval, ApprovalsService } from "../gen/palyra/v1/approvals_pb";
import { Came, First, useFirst } from "../first/first";
import { Act } from "../ui/parts";
import { Trouble } from "../ui/trouble";
import { Detail } from "./detail";
import { useFeed } from "./feed";
import { List } from "./list";

export function Approvals({ id }: { id?: string }) {
  const feed = useFeed();
  const [past, setPast] = useState(false);
  const first = useFirst();
  const history = useInfiniteQuery({
    queryKey: ["approvals", feed.settled.size],
    enabled: past,
    initialPageParam: "",
    queryFn: ({ pageParam }) => approvals.listApprovals({ filter: { cursor: pageParam, limit: 100n } }),
    getNextPageParam: (last) => last.nextCursor || undefined,
  });
  const [filter, setFilter] = useState("");
  const every = past ? (history.data?.pages.flatMap((p) => p.approvals) ?? []).filter((a) => a.decision) : feed.pending;
  const all = filter ? every.filter((a) => holds(a, filter.toLowerCase())) : every;
  useEffect(() => {
    const step = (e: KeyboardEvent) => {
      const by = e.key === "j" ? 1 : e.key === "k" ? -1 : 0;
      const typing = e.target instanceof HTMLElement && e.target.matches("input,select,textarea");
      if (by === 0 || typing || e.ctrlKey || e.metaKey || e.altKey || all.length === 0) {
        return;
      }
      const at = all.findIndex((a) => a.approvalId === id);
      const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
      if (next) {
        location.hash = `#/approvals/${encodeURIComponent(next.approvalId)}`;
      }
    };
    addEventListener("keydown", step);
    return () => removeEventListener("keydown", step);
  });
  return (
    <>
    <h1 className="unseen">Approvals</h1>
    {first.came && <Came call={first.came} />}
    <div className={id ? "split chosen" : "split"}>
      <section aria-label="Questions">
        <div className="row tabs">
          <button type="button" aria-pressed={!past} onClick={() => setPast(false)}>
            Waiting ({feed.pending.length})
          </button>
          <button type="button" aria-pressed={past} onClick={() => setPast(true)}>
            Answered
          </button>
          <input aria-label="Filter" placeholder="Filter" value={filter} size={12} onChange={(e) => setFilter(e.target.value)} />
          {!past && filter && all.length > 0 && (
            <Act
              of={all.map((a) => a.approvalId).join()}
              what={`${all.length} questions`}
              name={`Deny these ${all.length}`}
              sure="Deny"
              again={["approvals"]}
              needs={ApprovalsService.method.decideApproval}
              run={() => denyAll(all)}
            />
          )}
          {past && <Act of="all" what="all records, signed" name="Export" sure="Export" again={["approvals"]} needs={ApprovalsService.method.exportApprovals} run={exported} />}
        </div>
        {past && history.error && <Trouble problem={asProblem(history.error)} />}
        {all.length === 0 ? (
          <p className="empty">{past ? "Nothing was answered yet." : "Nothing waits for an answer. Questions appear here by themselves."}</p>
        ) : (
          <List all={all} chosen={id} label={past ? "Answered questions" : "Waiting questions"} />
        )}
        {past && history.hasNextPage && (
          <button type="button" onClick={() => history.fetchNextPage()}>
            Earlier
          </button>
        )}
      </section>
      <section aria-label="The question">
        {id ? (
          <>
            <a className="back" href="#/approvals">
              All questions
            </a>
            <Detail key={id} id={id} />
          </>
        ) : first.empty && feed.live && feed.pending.length === 0 ? (
          <First />
        ) : (
          <p className="empty">Choose a question; j and k go through them.</p>
        )}
      </section>
    </div>
    </>
  );
}

// holds reports whether a question has a text in what its row shows, or in its risk, session or kind.
function holds(a: Approval, text: string): boolean {
  const { prompt } = a;
  return [prompt?.title, prompt?.summary, a.principal, a.subjectType, a.sessionId, prompt?.risk?.level, a.decision?.answer, a.decision?.by]
    .some((t) => t?.toLowerCase().includes(text));
}

// denyAll denies each of the questions, with a signature of its own, and stops at the first trouble.
async function denyAll(all: readonly Approval[]): Promise<void> {
  for (const a of all) {
    await approvals.decideApproval({ approvalId: a.approvalId, planDigest: a.planDigest, method: "console", answer: "deny" });
  }
}

// exported saves all records, chained and sealed, as the command does.
async function exported(): Promise<void> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for await (const m of approvals.exportApprovals({ format: "ndjson" })) {
    chunks.push(new Uint8Array(m.chunk));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(chunks, { type: "application/x-ndjson" }));
  link.download = "approvals.ndjson";
  link.click();
  URL.revokeObjectURL(link.href);
}
