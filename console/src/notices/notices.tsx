// Notices of the browser that a question waits, for a person who looks at something else. They say what waits and how risky
// it is; nothing can be decided in them. They come while this page or the installed app is open.
import { useEffect, useSyncExternalStore } from "react";
import { useFeed } from "../approvals/feed";
import type { Approval } from "../gen/palyra/v1/approvals_pb";
import { pieces, visible } from "../ui/show";
import { registered } from "./worker";

const most = 240; // characters of what is asked
const kept = "notices";

type State = "none" | "off" | "on" | "refused";

const listeners = new Set<() => void>();

function state(): State {
  if (!("Notification" in window) || !("serviceWorker" in navigator) || !isSecureContext) {
    return "none";
  }
  if (Notification.permission === "denied") {
    return "refused";
  }
  return Notification.permission === "granted" && localStorage.getItem(kept) === "on" ? "on" : "off";
}

function useSwitch(): State {
  return useSyncExternalStore((f) => {
    listeners.add(f);
    return () => listeners.delete(f);
  }, state);
}

function keep(on: boolean): void {
  localStorage.setItem(kept, on ? "on" : "off");
  for (const f of listeners) {
    f();
  }
}

// Notices is the switch; the browser asks its person only when that is pressed.
export function Notices() {
  const now = useSwitch();
  useTelling(now === "on");
  const turn = async () => {
    if (now === "off" && (await Notification.requestPermission()) === "granted") {
      await registered();
      keep(true);
      return;
    }
    keep(false);
  };
  if (now === "none") {
    return null;
  }
  return (
    <button
      type="button"
      aria-pressed={now === "on"}
      disabled={now === "refused"}
      title={now === "refused" ? "this browser was told to show no notices of this page: see its settings for the site" : "say it when a question waits and this page is not looked at"}
      onClick={turn}
    >
      Notices
    </button>
  );
}

const away = () => document.visibilityState !== "visible" || !document.hasFocus();

// useTelling tells of each question once, when nobody looks at the page, and takes back what was answered.
function useTelling(on: boolean): void {
  const { pending, live } = useFeed();
  useEffect(() => {
    const lead = (e: MessageEvent<{ approval?: unknown }>) => {
      const id = e.data?.approval;
      if (typeof id === "string" && /^[0-9A-Z]*$/.test(id)) {
        location.hash = `#/approvals/${id}`;
      }
    };
    navigator.serviceWorker?.addEventListener("message", lead);
    return () => navigator.serviceWorker?.removeEventListener("message", lead);
  }, []);
  useEffect(() => {
    if (on && live) {
      const later = setTimeout(() => void tell(pending), 300); // what comes at once is told at once
      return () => clearTimeout(later);
    }
  }, [on, live, pending]);
}

let known: ReadonlySet<string> = new Set(); // what was told, or was there to be seen

async function tell(pending: readonly Approval[]): Promise<void> {
  const fresh = pending.filter((a) => !known.has(a.approvalId));
  known = new Set(pending.map((a) => a.approvalId));
  const r = await registered();
  for (const shown of await r.getNotifications()) {
    if (shown.tag !== many && !known.has(shown.tag)) {
      shown.close();
    }
  }
  const [one] = fresh;
  if (!one || !away()) {
    return;
  }
  const count = fresh.length;
  await r.showNotification("Palyra: an answer is waited for", {
    tag: count > 1 ? many : one.approvalId,
    body: count > 1 ? `${count} questions. The first: ${said(one)}` : said(one),
    data: count > 1 ? "" : one.approvalId,
    icon: "/icon-192.png",
  });
}

const many = "many";

function said(a: Approval): string {
  const { head, left, tail } = pieces(visible(a.prompt?.summary || a.prompt?.title || a.subjectId), most);
  return `${a.prompt?.risk?.level ?? "critical"} risk, ${visible(a.principal)}: ${left > 0 ? `${head} ⋯ ${tail}` : head}`;
}
