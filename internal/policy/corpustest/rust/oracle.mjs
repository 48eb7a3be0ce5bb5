// Answers authorization questions with Cedar's Rust engine: one JSON object per
// line in, one out, in order. A line with "policies" names a set; one without
// asks a question of a set that was named before.
import { createInterface } from "node:readline";
import * as cedar from "@cedar-policy/cedar-wasm/nodejs";

function name({ set, policies }) {
  const answer = cedar.preparsePolicySet(set, { staticPolicies: policies });
  return answer.type === "success" ? {} : { fault: JSON.stringify(answer.errors) };
}

function ask({ set, principal, action, resource, context, entities }) {
  const answer = cedar.statefulIsAuthorized({
    principal, action, resource, context, entities, preparsedPolicySetId: set,
  });
  if (answer.type !== "success") {
    return { fault: JSON.stringify(answer.errors) };
  }
  const { decision, diagnostics } = answer.response;
  return { decision, reasons: diagnostics.reason, errors: diagnostics.errors.map((e) => e.policyId) };
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  let answer;
  try {
    const question = JSON.parse(line);
    answer = question.policies ? name(question) : ask(question);
  } catch (e) {
    answer = { fault: String(e) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
