import { useState } from "react";
import { PolicyService, type PolicyCheck } from "../gen/palyra/v1/policy_pb";
import { asProblem, policies, type Problem } from "../rpc";
import { Act, Asked, Facts, Table, useAsk } from "../ui/parts";
import { may, useRights } from "../device/rights";
import { Block, Text } from "../ui/text";
import { when } from "../ui/time";
import { Trouble } from "../ui/trouble";
import { Replay } from "./replay";

export function Policy({ id }: { id?: string }) {
  return id ? <Why key={id} id={id} /> : <Bundle />;
}

function Bundle() {
  const q = useAsk(["policy"], () => policies.getPolicy({}), 30_000);
  const past = useAsk(["activations"], () => policies.listActivations({ limit: 20n }), 30_000);
  const [call, setCall] = useState("");
  return (
    <>
      <h1>Policy</h1>
      <form
        className="row"
        onSubmit={(e) => {
          e.preventDefault();
          location.hash = `#/policy/${encodeURIComponent(call.trim())}`;
        }}
      >
        <label>
          Why was this answered so <input value={call} placeholder="call or approval" onChange={(e) => setCall(e.target.value)} />
        </label>
        <button type="submit" disabled={!call.trim()}>
          Why
        </button>
      </form>
      <Asked q={q}>
        {({ policy: p }) => (
          <>
            <Facts of={[["Preset", p?.preset ?? ""], ["Bundle", p?.bundleDigest ?? ""], ["Configuration", p?.snapshotDigest ?? ""]]} />
            <Files key={p?.bundleDigest} files={Object.fromEntries((p?.files ?? []).map((f) => [f.name, f.text]))} />
          </>
        )}
      </Asked>
      <h2>What was in force</h2>
      <Asked q={past}>
        {(r) => (
          <Table
            label="Bundles that were in force"
            empty="Nothing but the first bundle."
            head={["Since", "By", "Bundle", "", ""]}
            rows={r.activations.map((a) => ({ id: `${when(a.at)} ${a.bundleDigest}`, cells: [
              when(a.at),
              a.by,
              a.bundleDigest,
              a.inForce ? "in force" : "",
              a.inForce ? (
                ""
              ) : (
                <Act
                  key="back"
                  of={a.bundleDigest}
                  what={a.bundleDigest}
                  name="Back to it"
                  sure="Put into force"
                  again={["policy"]}
                  needs={PolicyService.method.rollbackPolicy}
                  run={() => policies.rollbackPolicy({ bundleDigest: a.bundleDigest })}
                />
              ),
            ] }))}
          />
        )}
      </Asked>
    </>
  );
}

// Files is the bundle, to be read, changed, checked and put into force.
function Files({ files }: { files: { [name: string]: string } }) {
  const rights = useRights();
  const [text, setText] = useState(files);
  const [name, setName] = useState(Object.keys(files)[0] ?? "");
  const [check, setCheck] = useState<PolicyCheck>();
  const [problem, setProblem] = useState<Problem>();
  const changed = Object.keys(files).some((n) => files[n] !== text[n]);
  const run = async () => {
    setProblem(undefined);
    try {
      setCheck((await policies.checkPolicy({ files: text })).check);
    } catch (e) {
      setProblem(asProblem(e));
    }
  };
  const good = check && check.problems.length === 0 && check.tests.every((t) => t.ok);
  return (
    <section aria-label="Files">
      <div className="row">
        <label>
          File{" "}
          <select value={name} onChange={(e) => setName(e.target.value)}>
            {Object.keys(files).map((n) => (
              <option key={n}>{n}</option>
            ))}
          </select>
        </label>
        <button type="button" onClick={run}>
          Check
        </button>
        {changed && good && (
          <Act
            of={JSON.stringify(text)}
            what={Object.keys(text).filter((n) => files[n] !== text[n]).join(", ")}
            name="Apply"
            sure="Put into force"
            again={["policy"]}
            needs={PolicyService.method.applyPolicy}
            run={() => policies.applyPolicy({ files: text })}
          />
        )}
      </div>
      <textarea
        aria-label={`Text of ${name}`}
        spellCheck={false}
        rows={20}
        value={text[name] ?? ""}
        onChange={(e) => {
          setText({ ...text, [name]: e.target.value });
          setCheck(undefined);
        }}
      />
      {problem && <Trouble problem={problem} />}
      {check && (
        <div role="status">
          {good ? <p>{`${check.policies} policies, ${check.tests.length} tests: good`}</p> : <p className="warn">This bundle would be refused.</p>}
          {check.problems.map((p) => (
            <p key={`${p.file}:${p.line}:${p.text}`} className="warn">
              <Text of={`${p.file}:${p.line}:${p.column}: ${p.text}`} />
            </p>
          ))}
          {check.tests
            .filter((t) => !t.ok)
            .map((t) => (
              <Block key={`${t.file} ${t.name}`} label={t.name} of={`${t.file}: ${t.name}\n${t.text}`} />
            ))}
          {check.warnings.map((w) => (
            <p key={w} className="warn">
              <Text of={w} />
            </p>
          ))}
        </div>
      )}
      {may(rights, PolicyService.method.replayPolicy) && <Replay files={text} changed={changed} />}
    </section>
  );
}

function Why({ id }: { id: string }) {
  const q = useAsk(["why", id], () => policies.explainCall({ callId: id }), 60_000);
  return (
    <>
      <p>
        <a href="#/policy">Policy</a>
      </p>
      <h1>Why</h1>
      <Asked q={q}>
        {({ explanation: e }) => (
          <>
            <Facts
              of={[
                ["Call", e?.callId ?? ""],
                ["Answer", e?.verdict?.effect ?? ""],
                ["Layer", e?.layer ?? ""],
                ["Reason", e?.reason ?? ""],
                ["Remedy", e?.remedy ?? ""],
              ]}
            />
            <Block label="Explanation" of={(e?.lines ?? []).join("\n")} />
            <h2>What would change the answer</h2>
            <Table
              label="What would change the answer"
              empty="Nothing small would."
              head={["Becomes", "What", "Change", ""]}
              rows={(e?.flips ?? []).map((f) => ({ id: `${f.becomes} ${f.change}`, cells: [
                f.becomes,
                f.text,
                <Block key="change" label="Change" of={f.change} />,
                f.verified ? "tried" : "not tried",
              ] }))}
            />
          </>
        )}
      </Asked>
    </>
  );
}
