// The way to the daemon: the services that the command uses, too. Requests that the protocol marks as signed get the
// signature of this browser's own key; without one they are refused here, with what to do.
import type { DescMessage, DescMethodUnary, DescService, Message } from "@bufbuild/protobuf";
import { getOption, hasOption } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AccessService } from "./gen/palyra/v1/access_pb";
import { ApprovalsService } from "./gen/palyra/v1/approvals_pb";
import { AttestationService } from "./gen/palyra/v1/attestation_pb";
import { ChangeService } from "./gen/palyra/v1/change_pb";
import { DeviceService } from "./gen/palyra/v1/device_pb";
import { JournalService } from "./gen/palyra/v1/journal_pb";
import { KeyService } from "./gen/palyra/v1/key_pb";
import { McpService } from "./gen/palyra/v1/mcp_pb";
import { access, ErrorDetailSchema } from "./gen/palyra/v1/option_pb";
import { PolicyService } from "./gen/palyra/v1/policy_pb";
import { RunService } from "./gen/palyra/v1/run_pb";
import { SandboxService } from "./gen/palyra/v1/sandbox_pb";
import { StatusService } from "./gen/palyra/v1/status_pb";
import { ToolService } from "./gen/palyra/v1/tool_pb";
import { VaultService } from "./gen/palyra/v1/vault_pb";
import { WorkspaceService } from "./gen/palyra/v1/workspace_pb";
import { keySigner, ownKey } from "./device/key";
import { pageSecret } from "./device/page";
import { chosenPasskey, passkeySigner } from "./device/passkey";
import { signIntent } from "./sign/intent";

const signing: Interceptor = (next) => async (req) => {
  const method = req.method;
  const opens = method === AccessService.method.openConsole; // which a browser has to sign: its session is over
  if (!opens && (!hasOption(method, access) || !getOption(method, access).signed)) {
    return next(req);
  }
  const passkey = method === ApprovalsService.method.decideApproval ? chosenPasskey() : undefined;
  const key = passkey ? undefined : await ownKey();
  const signer = passkey ? passkeySigner(passkey) : key && keySigner(key);
  if (!signer) {
    throw new Problem("denied", "signature_required", "this browser has no key yet", "pair it: palyra console pair");
  }
  const sign = (m: Message) => signIntent(signer, method as DescMethodUnary<DescMessage, DescMessage>, m);
  if (!req.stream) {
    req.header.set("Palyra-Intent", await sign(req.message));
    return next(req);
  }
  for await (const one of req.message) { // of a stream from the daemon, which has one request
    req.header.set("Palyra-Intent", await sign(one));
    return next({ ...req, message: only(one) });
  }
  throw new Problem("invalid", "malformed_input", "there is nothing to sign", "");
};

// own shows that the request comes from a page of this very origin: the cookie goes to other ports of its name, too.
const own: Interceptor = (next) => (req) => {
  req.header.set("Palyra-Page", pageSecret());
  return next(req);
};

async function* only<M>(m: M): AsyncIterable<M> {
  yield m;
}

const transport = createConnectTransport({
  baseUrl: location.origin,
  useBinaryFormat: true,
  interceptors: [signing, own],
  fetch: (input, init) => fetch(input, { ...init, credentials: "same-origin", redirect: "error" }),
});

function client<S extends DescService>(s: S): Client<S> {
  return createClient(s, transport);
}

export const approvals = client(ApprovalsService);
export const accesses = client(AccessService);
export const attestations = client(AttestationService);
export const changes = client(ChangeService);
export const devices = client(DeviceService);
export const journal = client(JournalService);
export const keys = client(KeyService);
export const upstreams = client(McpService);
export const policies = client(PolicyService);
export const runs = client(RunService);
export const sandbox = client(SandboxService);
export const status = client(StatusService);
export const tools = client(ToolService);
export const vault = client(VaultService);
export const workspaces = client(WorkspaceService);

// Problem is an error as the daemon tells it.
export class Problem extends Error {
  constructor(
    readonly code: string,
    readonly reason: string,
    text: string,
    readonly remedy: string,
  ) {
    super(text);
  }
}

// asProblem reads any error.
export function asProblem(e: unknown): Problem {
  if (e instanceof Problem) {
    return e;
  }
  const c = ConnectError.from(e);
  if (c.cause instanceof Problem) {
    return c.cause;
  }
  if (c.cause instanceof DOMException && c.cause.name !== "AbortError") {
    return new Problem("denied", "authenticator", "the authenticator did not sign", "try again, or choose another key to answer with");
  }
  const [detail] = c.findDetails(ErrorDetailSchema);
  if (detail) {
    return new Problem(detail.code, detail.reasonCode, c.rawMessage, detail.remedy);
  }
  if (c.code === Code.Unknown || c.code === Code.Unavailable || c.code === Code.Internal) {
    return new Problem("unavailable", "unreachable", "the daemon does not answer", "see 'palyra status'; 'palyra up' starts it");
  }
  return new Problem("internal", Code[c.code] ?? "error", c.rawMessage, "");
}

// signedOut reports whether an error says that the browser is not signed in any more.
export function signedOut(e: unknown): boolean {
  const reason = asProblem(e).reason;
  return reason === "no_credential" || reason === "bad_credential" || reason === "unauthenticated";
}
