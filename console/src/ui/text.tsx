import { useState } from "react";
import { argument, pieces, visible } from "./show";

const most = 4096;

// Text is outside text on one line.
export function Text({ of }: { of: string }) {
  return <Cut shown={visible(of)} />;
}

// Block is outside text with lines of its own.
export function Block({ of, label }: { of: string; label?: string }) {
  return (
    <pre className="block" tabIndex={0} aria-label={label}>
      <Cut shown={visible(of, true)} />
    </pre>
  );
}

// Argument is one element of a command.
export function Argument({ of }: { of: string }) {
  return (
    <code className="arg">
      <Cut shown={argument(of)} />
    </code>
  );
}

// Cut shows head and tail of a long text, and says how much is between them.
function Cut({ shown }: { shown: string }) {
  const [whole, setWhole] = useState(false);
  const { head, left, tail } = pieces(shown, whole ? Number.POSITIVE_INFINITY : most);
  return (
    <bdi className="outside">
      {head}
      {left > 0 && (
        <>
          <button type="button" className="cut" onClick={() => setWhole(true)}>
            {left} characters more: show them
          </button>
          {tail}
        </>
      )}
    </bdi>
  );
}

// Diff is a unified diff, by lines.
export function Diff({ of }: { of: string }) {
  const [whole, setWhole] = useState(false);
  const lines = visible(of, true).split("\n");
  const shown = whole ? lines : lines.slice(0, 400);
  return (
    <pre className="block diff" tabIndex={0} aria-label="Changes">
      {shown.map((line, i) => (
        // biome-ignore lint: the lines of a diff have no other name
        <span key={i} className={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@") ? "faint" : ""}>
          {line}
          {"\n"}
        </span>
      ))}
      {shown.length < lines.length && (
        <button type="button" className="cut" onClick={() => setWhole(true)}>
          {lines.length - shown.length} lines more: show them
        </button>
      )}
    </pre>
  );
}
