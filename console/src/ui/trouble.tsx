import type { Problem } from "../rpc";
import { Text } from "./text";

// Trouble says what went wrong and what helps.
export function Trouble({ problem }: { problem: Problem }) {
  return (
    <div className="trouble" role="alert">
      <strong>
        <Text of={problem.message} />
      </strong>
      {problem.remedy && (
        <div>
          <Text of={problem.remedy} />
        </div>
      )}
      <div className="faint">{problem.reason}</div>
    </div>
  );
}
