// A list of any length: only the rows on the screen are there.
import { useEffect, useRef, useState } from "react";
import type { Approval } from "../gen/palyra/v1/approvals_pb";
import { visible } from "../ui/show";
import { when } from "../ui/time";

const high = 68;
const beside = 8;

export function List({ all, chosen, label }: { all: readonly Approval[]; chosen?: string; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const b = box.current;
    if (!b) {
      return;
    }
    const see = () => setView({ top: b.scrollTop, height: b.clientHeight });
    see();
    b.addEventListener("scroll", see, { passive: true });
    const grown = new ResizeObserver(see);
    grown.observe(b);
    return () => {
      b.removeEventListener("scroll", see);
      grown.disconnect();
    };
  }, []);
  const from = Math.max(0, Math.floor(view.top / high) - beside);
  const to = Math.min(all.length, Math.ceil((view.top + view.height) / high) + beside);
  return (
    <div className="list" ref={box} role="group" aria-label={label} tabIndex={0}>
      <div className="rows" style={{ height: all.length * high }}>
        {all.slice(from, to).map((a, i) => (
          <Row key={a.approvalId} a={a} top={(from + i) * high} chosen={a.approvalId === chosen} />
        ))}
      </div>
    </div>
  );
}

function Row({ a, top, chosen }: { a: Approval; top: number; chosen: boolean }) {
  const text = a.prompt?.summary || a.prompt?.title || a.subjectId;
  return (
    <a
      className="item"
      href={`#/approvals/${encodeURIComponent(a.approvalId)}`}
      aria-current={chosen ? "true" : undefined}
      style={{ transform: `translateY(${top}px)` }}
      data-approval={a.approvalId}
    >
      <span className="title">{visible(text.slice(0, 300))}</span>
      <span className="meta">
        <span className={`dot ${a.prompt?.risk?.level ?? "critical"}`} aria-hidden="true" /> {visible(a.principal)} · {when(a.requestedAt)}
        {a.decision && <> · {visible(a.decision.answer)}</>}
      </span>
    </a>
  );
}
