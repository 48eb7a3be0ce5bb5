// Being told while this browser is closed: the daemon sends that a question waits by the push service of the browser's maker, if
// an operator has let it. The message says how many wait and how risky they are; it is encrypted for this browser.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { onlyDenies } from "../device/beyond";
import { usePaired } from "../device/pairing";
import { asProblem, devices, Problem } from "../rpc";
import { useAsk } from "../ui/parts";
import { Text } from "../ui/text";
import { Trouble } from "../ui/trouble";
import { when } from "../ui/time";
import { registered } from "./worker";

const remedy = "see that this machine reaches the Internet and that the browser has a push service (some are built without one), then try again; " +
  "palyra approvals watch --notify and --desktop tell without it";

// subscribe asks the browser, which asks its push service.
async function subscribe(key: Uint8Array<ArrayBuffer>): Promise<PushSubscription> {
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Problem("denied", "no_notices", "this browser shows no notices of this page", "allow them in its settings for the site");
  }
  const r = await registered();
  try {
    await (await r.pushManager.getSubscription())?.unsubscribe(); // it may be for another key
    return await r.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e);
    throw new Problem("unavailable", "no_push_service", `the browser's push service did not answer: ${why}`, remedy);
  }
}

function bytes(s: PushSubscription, name: PushEncryptionKeyName): Uint8Array<ArrayBuffer> {
  return new Uint8Array(s.getKey(name) ?? new ArrayBuffer(0));
}

export function Push() {
  const paired = usePaired();
  const queries = useQueryClient();
  const state = useAsk(["devices", "notices"], () => devices.getNotices({}));
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  if (onlyDenies || !state.data) {
    return null;
  }
  const { off, publicKey, subscriptions } = state.data;
  const own = subscriptions.find((s) => s.deviceId === paired?.device);
  const turn = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      if (own) {
        await devices.unsubscribeNotices({});
        await (await (await registered()).pushManager.getSubscription())?.unsubscribe();
      } else {
        const s = await subscribe(new Uint8Array(publicKey));
        await devices.subscribeNotices({ endpoint: s.endpoint, key: bytes(s, "p256dh"), auth: bytes(s, "auth") });
      }
    } catch (e) {
      setProblem(asProblem(e));
    } finally {
      await queries.invalidateQueries({ queryKey: ["devices", "notices"] });
      setBusy(false);
    }
  };
  const able = "PushManager" in window && "Notification" in window && "serviceWorker" in navigator;
  return (
    <section className="note" aria-label="Notices while this browser is closed" data-testid="push">
      <h2>While this browser is closed</h2>
      {off ? (
        <p className="faint">
          <Text of={off} />.
        </p>
      ) : !able ? (
        <p className="faint">This browser has no push service.</p>
      ) : !paired ? (
        <p className="faint">Pair this browser, and it can be told that a question waits while it is closed.</p>
      ) : (
        <>
          <p>
            Its maker's push service can tell it that a question waits. That service learns when, and that it is this browser; how many
            wait and how risky they are is encrypted. Nothing can be decided in such a notice.
          </p>
          <button type="button" aria-pressed={!!own} disabled={busy} onClick={turn}>
            {own ? "Tell this browser no more" : "Tell this browser when it is closed"}
          </button>
        </>
      )}
      {subscriptions.length > 0 && (
        <ul>
          {subscriptions.map((s) => (
            <li key={s.deviceId}>
              <Text of={s.deviceId === paired?.device ? "this browser" : s.deviceId} /> by <Text of={s.service} /> since {when(s.since)}:{" "}
              {s.sent.toString()} sent, {s.failed.toString()} failed
              {s.problem && (
                <span className="warn">
                  , the last time: <Text of={s.problem} />
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
      {problem && <Trouble problem={problem} />}
    </section>
  );
}
