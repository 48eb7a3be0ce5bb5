// What is pending, live: one stream for the whole page, opened again when it breaks off.
import { useSyncExternalStore } from "react";
import type { Approval } from "../gen/palyra/v1/approvals_pb";
import { signInAgain } from "../device/session";
import { approvals, asProblem, type Problem, signedOut } from "../rpc";

export interface Feed {
  live: boolean;
  problem?: Problem;
  signedOut: boolean;
  pending: readonly Approval[]; // the oldest first
  settled: ReadonlyMap<string, Approval>; // those that were settled while we watched
}

let feed: Feed = { live: false, signedOut: false, pending: [], settled: new Map() };
const pending = new Map<string, Approval>();
let settled = new Map<string, Approval>();
const listeners = new Set<() => void>();
let due = false;
let running = false;

// publish tells the page at most sixty times a second, however fast questions come.
function publish(change: Partial<Feed>): void {
  feed = { ...feed, ...change };
  if (!due) {
    due = true;
    setTimeout(() => { // not a frame: a page that nobody sees has none
      due = false;
      feed = { ...feed, pending: [...pending.values()], settled };
      for (const f of listeners) {
        f();
      }
    }, 16);
  }
}

const keepSettled = 200;

function take(a: Approval): void {
  if (!a.decision) {
    pending.set(a.approvalId, a);
    return;
  }
  pending.delete(a.approvalId);
  settled = new Map([...settled].slice(-keepSettled)).set(a.approvalId, a);
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function watch(): Promise<void> {
  for (let wait = 250; listeners.size > 0; wait = Math.min(wait * 2, 4_000)) {
    try {
      let fresh = true;
      const stream = approvals.watchApprovals({}, {
        onHeader: () => {
          pending.clear(); // what was settled meanwhile is not told again
          fresh = false;
          wait = 250;
          publish({ live: true, problem: undefined, signedOut: false });
        },
      });
      for await (const m of stream) {
        if (m.approval) {
          take(m.approval);
          publish({});
        }
      }
      if (fresh) {
        publish({ live: false });
      }
    } catch (e) {
      if (signedOut(e)) {
        if (await signInAgain()) {
          await pause(wait);
          continue;
        }
        publish({ live: false, signedOut: true });
        break;
      }
      publish({ live: false, problem: asProblem(e) });
    }
    publish({ live: false });
    await pause(wait);
  }
  running = false;
}

function subscribe(f: () => void): () => void {
  listeners.add(f);
  if (!running) {
    running = true;
    void watch();
  }
  return () => listeners.delete(f);
}

export function useFeed(): Feed {
  return useSyncExternalStore(subscribe, () => feed);
}
