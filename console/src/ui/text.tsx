import { type ReactNode, useState } from "react";
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

interface Many<T> {
  of: readonly T[];
  most: number;
  show: (one: T, at: number) => ReactNode;
}

// Lines shows the first and the last of many lines, and how many are between them: what ends a text is never hidden.
export function Lines<T>({ of, most, show }: Many<T>) {
  const [whole, setWhole] = useState(false);
  if (whole || of.length <= most) {
    return of.map(show);
  }
  const half = Math.floor(most / 2);
  const left = of.length - 2 * half;
  return (
    <>
      {of.slice(0, half).map(show)}
      <button type="button" className="cut" onClick={() => setWhole(true)}>
        {left} more: show them
      </button>
      {"\n"}
      {of.slice(-half).map((line, i) => show(line, half + left + i))}
    </>
  );
}

// Diff is a unified diff, by lines.
export function Diff({ of }: { of: string }) {
  return (
    <pre className="block diff" tabIndex={0} aria-label="Changes">
      <Lines
        of={visible(of, true).split("\n")}
        most={400}
        show={(line, i) => (
          <span key={i} className={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@") ? "faint" : ""}>
            {line}
            {"\n"}
          </span>
        )}
      />
    </pre>
  );
}
