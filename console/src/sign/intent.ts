// What a person signs: one method, one body, once, now, for one daemon; as internal/rpc/wire and intent.go have it.
import type { DescField, DescMessage, DescMethodUnary, Message } from "@bufbuild/protobuf";
import { getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { json } from "../gen/palyra/v1/option_pb";
import { base64, digest, tagged, type Value } from "./canon";

// fieldsOf are the populated fields of a request, under their proto names.
export function fieldsOf(m: ReflectMessage): { [key: string]: Value } {
  const out: { [key: string]: Value } = {};
  for (const f of m.fields) {
    if (m.isSet(f)) {
      out[f.name] = fieldOf(m, f);
    }
  }
  return out;
}

function fieldOf(m: ReflectMessage, f: DescField): Value {
  switch (f.fieldKind) {
    case "scalar":
      if (hasOption(f, json) && getOption(f, json)) {
        throw new Error(`${f.name} holds JSON: it is not signed here`);
      }
      return scalar(f.scalar, m.get(f));
    case "list": {
      const list = m.get(f);
      if (f.listKind === "scalar") {
        return Array.from(list, (v) => scalar(f.scalar, v));
      }
      break;
    }
    case "map": {
      const pairs = m.get(f);
      if (f.mapKind === "scalar" && f.mapKey === ScalarType.STRING) {
        const out: { [key: string]: Value } = {};
        for (const [k, v] of pairs) {
          out[String(k)] = scalar(f.scalar, v);
        }
        return out;
      }
      break;
    }
    case "message":
      if (!f.message.typeName.startsWith("google.")) {
        return fieldsOf(m.get(f));
      }
  }
  throw new Error(`${f.name} is of a kind that is not signed here`);
}

function scalar(kind: ScalarType, v: unknown): Value {
  switch (kind) {
    case ScalarType.STRING:
      return String(v);
    case ScalarType.BOOL:
      return v === true;
    case ScalarType.INT32:
    case ScalarType.INT64:
    case ScalarType.UINT32:
    case ScalarType.UINT64:
      return BigInt(v as bigint | number);
    case ScalarType.BYTES:
      return base64(v as Uint8Array);
  }
  throw new Error("a number that is not whole is not signed here");
}

// Signed is a signature, and of a passkey what it is over besides.
export interface Signed {
  sig: string;
  authenticator_data?: string;
  client_data_json?: string;
}

// Signer signs messages for one daemon.
export interface Signer {
  id: string; // as in signatures
  audience: string;
  sign(message: Uint8Array<ArrayBuffer>): Promise<Signed>;
}

// signIntent returns the header of a signed request.
export async function signIntent(
  signer: Signer,
  method: DescMethodUnary<DescMessage, DescMessage>,
  message: Message,
): Promise<string> {
  const fields = fieldsOf(reflect(method.input, message));
  const nonce = base64(crypto.getRandomValues(new Uint8Array(16))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const time = rfc3339(new Date());
  const intent: { [key: string]: Value } = {
    audience: signer.audience,
    method: `${method.parent.typeName}/${method.name}`,
    body: await digest("intent-body/v1", fields),
    nonce,
    time,
    key_id: signer.id,
  };
  if (typeof fields.plan_digest === "string") {
    intent.plan_digest = fields.plan_digest;
  }
  return JSON.stringify({ nonce, time, key_id: signer.id, ...(await signer.sign(tagged("intent/v1", intent))) });
}

// rfc3339 writes a time as the daemon does: no zeros behind the seconds.
export function rfc3339(t: Date): string {
  return t.toISOString().replace(/\.?0*Z$/, "Z");
}
