import { useState } from "react";
import { ChangeService } from "../gen/palyra/v1/change_pb";
import { changes } from "../rpc";
import { Act, Asked, Facts, Table, useAsk } from "../ui/parts";
import { Diff } from "../ui/text";
import { when } from "../ui/time";

export function Changes({ id }: { id?: string }) {
  return id ? <One key={id} id={id} /> : <All />;
}

function All() {
  const q = useAsk(["changes"], () => changes.listUndo({}));
  return (
    <>
      <h1>Changes</h1>
      <p className="faint">What calls changed in workspaces, as long as it can be taken back.</p>
      <Asked q={q}>
        {(r) => (
          <Table
            label="Changes"
            empty="No call changed anything that is remembered."
            head={["When", "Who", "What", "Where", "Paths", "State", ""]}
            rows={r.entries.map((e) => ({ id: e.callId, cells: [
              when(e.at),
              e.principal,
              e.summary,
              e.workspace,
              e.paths.toString(),
              e.state,
              <a key="open" href={`#/changes/${encodeURIComponent(e.callId)}`}>
                Show
              </a>,
            ] }))}
          />
        )}
      </Asked>
    </>
  );
}

function One({ id }: { id: string }) {
  const q = useAsk(["changes", id], () => changes.getChanges({ callId: id, limit: 500n }));
  return (
    <>
      <p>
        <a href="#/changes">All changes</a>
      </p>
      <Asked q={q}>
        {(r) => {
          const c = r.changes;
          const call = { of: `${id} ${c?.undo}`, what: c?.summary || id };
          return (
            <>
              <h1>What the call changed</h1>
              <Facts
                of={[
                  ["Call", id],
                  ["What", c?.summary ?? ""],
                  ["Who", c?.principal ?? ""],
                  ["Where", c?.workspace ?? ""],
                  ["Ended", when(c?.finishedAt)],
                  ["Effects", c?.effects ?? ""],
                  ["Run by tools", c?.runByTools.join(", ") ?? ""],
                  ["Undo", c?.undo ?? ""],
                ]}
              />
              <p className="row">
                <Act {...call} name="Undo" sure="Put back what was there before" again={["changes"]} needs={ChangeService.method.undoCall} run={() => changes.undoCall({ callId: id })} />
                <Act {...call} name="Redo" sure="Make the changes again, of" again={["changes"]} needs={ChangeService.method.redoCall} run={() => changes.redoCall({ callId: id })} />
              </p>
              <Table
                label="Paths"
                empty="Nothing was changed."
                head={["Change", "Path", "Size", ""]}
                rows={(c?.changes ?? []).map((p) => ({ id: p.path, cells: [
                  p.change,
                  p.path,
                  `${p.was?.size ?? 0n} → ${p.now?.size ?? 0n}`,
                  <PathDiff key={p.path} id={id} path={p.path} />,
                ] }))}
              />
              {(c?.more ?? 0n) > 0n && <p className="warn">{c?.more.toString()} paths more are not shown here: palyra changes {id}</p>}
            </>
          );
        }}
      </Asked>
    </>
  );
}

function PathDiff({ id, path }: { id: string; path: string }) {
  const [open, setOpen] = useState(false);
  return open ? (
    <Shown id={id} path={path} />
  ) : (
    <button type="button" onClick={() => setOpen(true)}>
      Diff
    </button>
  );
}

function Shown({ id, path }: { id: string; path: string }) {
  const q = useAsk(["diff", id, path], () => changes.diffChanges({ callId: id, path }), 60_000);
  return <Asked q={q}>{(r) => <Diff of={r.diff || r.notes.join("\n") || "no text"} />}</Asked>;
}
