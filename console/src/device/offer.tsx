// Pairing another machine or browser from this page, as 'palyra device pair' and 'palyra console pair' do from a terminal: a
// code is shown here, used there, and nothing is paired before a person has compared the keys and said yes.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { useQueryClient } from "@tanstack/react-query";
import { encode } from "uqr";
import { AccessService } from "../gen/palyra/v1/access_pb";
import { DeviceService, type Pairing } from "../gen/palyra/v1/device_pb";
import { accesses, asProblem, devices, type Problem } from "../rpc";
import { useAsk } from "../ui/parts";
import { Text } from "../ui/text";
import { when } from "../ui/time";
import { Trouble } from "../ui/trouble";
import { usePaired } from "./pairing";
import { may, useRights } from "./rights";
import "./offer.css";

// What is chosen before a code is shown.
interface Wish {
  browser: boolean;
  principal: string; // empty: one's own
  role: string; // empty: approver
}

export function Offer() {
  const paired = usePaired();
  const rights = useRights();
  const queries = useQueryClient();
  const [wish, setWish] = useState<Wish>({ browser: false, principal: "", role: "" });
  const [now, setNow] = useState<Pairing>();
  const [code, setCode] = useState<Pairing>(); // the first message alone has it
  const [problem, setProblem] = useState<Problem>();
  const open = useRef<AbortController>(undefined);
  useEffect(() => () => open.current?.abort(), []); // who leaves withdraws the code

  const show = async (e: FormEvent) => {
    e.preventDefault();
    const end = new AbortController();
    open.current = end;
    setProblem(undefined);
    try {
      for await (const m of devices.pairDevice(wish, { signal: end.signal })) {
        setCode((c) => c ?? m.pairing);
        setNow(m.pairing);
      }
    } catch (e) {
      if (!end.signal.aborted) {
        setProblem(asProblem(e));
      }
    }
    setCode(undefined);
    await queries.invalidateQueries({ queryKey: ["devices"] });
  };
  const withdraw = () => {
    open.current?.abort();
    setNow(undefined);
  };

  if (!paired || !may(rights, DeviceService.method.pairDevice)) {
    return (
      <p className="faint">
        To pair another one from here, this browser needs a key and the role of an admin or owner: <code>palyra console pair --role owner</code>.
      </p>
    );
  }
  return (
    <section className="note offer" aria-label="Pair another">
      {code ? <Shown code={code} now={now ?? code} onEnd={withdraw} browser={wish.browser} /> : <Choice wish={wish} onChange={setWish} onSubmit={show} />}
      {!code && now && <Over of={now} />}
      {problem && <Trouble problem={problem} />}
    </section>
  );
}

function Choice({ wish, onChange, onSubmit }: { wish: Wish; onChange: (w: Wish) => void; onSubmit: (e: FormEvent) => void }) {
  const rights = useRights();
  const people = useAsk(["users"], () => (may(rights, AccessService.method.listUsers) ? accesses.listUsers({}) : Promise.resolve(undefined)));
  const roles = useAsk(["roles"], () => accesses.listRoles({}), 60_000);
  return (
    <form className="row" onSubmit={onSubmit}>
      <label>
        Pair{" "}
        <select value={wish.browser ? "browser" : "machine"} onChange={(e) => onChange({ ...wish, browser: e.target.value === "browser" })}>
          <option value="machine">another machine</option>
          <option value="browser">a browser on the daemon's machine</option>
        </select>
      </label>
      <label>
        of{" "}
        <select value={wish.principal} onChange={(e) => onChange({ ...wish, principal: e.target.value })}>
          <option value="">yourself</option>
          {(people.data?.users ?? [])
            .filter((u) => !u.removedAt && u.principal !== rights?.principal)
            .map((u) => (
              <option key={u.principal}>{u.principal}</option>
            ))}
        </select>
      </label>
      <label>
        which may do at most what an{" "}
        <select value={wish.role} onChange={(e) => onChange({ ...wish, role: e.target.value })}>
          <option value="">approver</option>
          {(roles.data?.roles ?? [])
            .map((r) => r.role)
            .filter((r) => !["approver", "agent", "node"].includes(r))
            .map((r) => (
              <option key={r}>{r}</option>
            ))}
        </select>{" "}
        may
      </label>
      <button type="submit">Show a code</button>
    </form>
  );
}

function Shown({ code, now, browser, onEnd }: { code: Pairing; now: Pairing; browser: boolean; onEnd: () => void }) {
  const pin = code.pin.length === 8 ? `${code.pin.slice(0, 4)} ${code.pin.slice(4)}` : code.pin;
  return (
    <>
      <p className="row">
        <span>
          PIN <strong className="print" data-testid="pin"><Text of={pin} /></strong>
        </span>
        <span className="faint">good until {when(code.expiresAt)}, for one {browser ? "browser" : "machine"}</span>
        <button type="button" onClick={onEnd}>
          Withdraw it
        </button>
      </p>
      {now.approvalId ? (
        <>
          <p role="status">
            Whoever shows the code does not answer, too: answer the question on
            another device, or in a terminal on the daemon's machine with <code>palyra approvals decide <Text of={now.approvalId} /> allow</code>.{" "}
            <strong>Compare this key with the one that is shown there.</strong> It calls itself <Text of={now.name} />, at{" "}
            <Text of={now.address} />.
          </p>
          <p className="print" data-testid="its-key">
            <Text of={now.fingerprint} />
          </p>
        </>
      ) : browser ? (
        <p>
          In that browser, open the link of <code>palyra console</code> and type the PIN.
        </p>
      ) : (
        <>
          <p>
            On the other machine: <code>palyra device join <Text of={code.addresses[0] ?? "ADDRESS"} /></code>
            {code.addresses.length > 1 && (
              <>
                {" "}(also at <Text of={code.addresses.slice(1).join(", ")} />)
              </>
            )}
            , and type the PIN. Or give it the text of this code, with <code>--code -</code>:
          </p>
          <Qr of={code.code} />
          <details>
            <summary>The text of the code</summary>
            <code data-testid="code"><Text of={code.code} /></code>
          </details>
        </>
      )}
      {now.tries > 0n && <p className="faint">tried {now.tries.toString()} of 5 times</p>}
    </>
  );
}

// Over says what became of it.
function Over({ of }: { of: Pairing }) {
  return of.device ? (
    <p role="status" data-testid="paired">
      Paired: <Text of={of.device.name} />
    </p>
  ) : (
    <p className="warn" role="status">
      Not paired: <Text of={of.reason || of.state} />
    </p>
  );
}

// Qr draws a code, dark on light in any colours, since others cannot be scanned.
function Qr({ of }: { of: string }) {
  const { size, data } = encode(of, { ecc: "L", border: 2 });
  const dark = data.flatMap((row, y) => row.flatMap((on, x) => (on ? [`M${x} ${y}h1v1h-1z`] : []))).join("");
  return (
    <svg className="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label="The code, for a camera" shapeRendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={dark} fill="#000" />
    </svg>
  );
}
