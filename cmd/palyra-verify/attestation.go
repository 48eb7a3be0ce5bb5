package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

type object = map[string]any

var isDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString

// must ends the check unless ok: verify turns it, and any other panic, into a refusal.
func must(ok bool, what string) {
	if !ok {
		panic(what)
	}
}

// verify checks an envelope or a whole outcome and returns the predicate. White space between tokens is free.
func verify(raw []byte, daemon, operators []ed25519.PublicKey) (p object, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("%v", r)
		}
	}()
	var text bytes.Buffer
	must(utf8.Valid(raw) && json.Compact(&text, raw) == nil, "this is not one JSON value in UTF-8")
	envelope, whole := text.Bytes(), struct{ Attestation json.RawMessage }{}
	must(!observed(envelope), "the call was observed and not held: what is said here is what would have become of it, and no evidence that "+
		"anything was gated")
	if fits("outcome", envelope) && reread(envelope, &whole) != nil {
		envelope = whole.Attestation
	}
	payload, st := open(envelope, daemon), object{}
	must(fits("statement", payload) && reread(payload, &st) != nil, "the payload is not a statement written the one way")
	p = st["predicate"].(object)
	statement(st, p)
	decision(p, operators)
	if whole.Attestation != nil {
		outcome(text.Bytes(), []byte(`,"attestation":`+string(envelope)+"}"), p)
	}
	return p, nil
}

// open checks a DSSE envelope and returns its payload.
func open(text []byte, daemon []ed25519.PublicKey) []byte {
	e := object{}
	must(fits("envelope", text) && reread(text, &e) != nil, "this is neither an envelope nor an outcome with one, written the one way")
	kind, payload, signatures := str(e, "payloadType"), unbase64(str(e, "payload")), e["signatures"].([]any)
	must(len(signatures) == 1 && kind == "application/vnd.in-toto+json", "the envelope has another type, or not one signature")
	s := signatures[0].(object)
	i := slices.IndexFunc(daemon, func(k ed25519.PublicKey) bool { return keyID(k) == s["keyid"] })
	must(i >= 0, "the signing key is not a trusted one")
	pae := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
	must(ed25519.Verify(daemon[i], pae, unbase64(str(s, "sig"))), "the signature does not match")
	return payload
}

// statement checks that the signed statement agrees with itself.
func statement(st, p object) {
	execution, plan := p["execution_sha256"], str(p, "plan_digest")
	delete(p, "execution_sha256")
	subject := object{"name": "palyra:call:" + str(p, "call_id"), "digest": object{"sha256": strings.TrimPrefix(plan, "sha256:")}}
	must(st["_type"] == "https://in-toto.io/Statement/v1" && st["predicateType"] == "https://palyra.dev/attestation/tool-call/v1",
		"the statement is of another type")
	must(reflect.DeepEqual(st["subject"], []any{subject}), "the subject is not the call and its plan")
	must(isDigest(plan) && isDigest(str(p, "outcome_sha256")) && p["call_id"] != "" && p["attestation_id"] != "",
		"an id or a digest is missing")
	must(execution == sum(canon([]byte("palyra/execution/v1\x00"), p)), "execution_sha256 is not the digest of the predicate")
	must(p["timed_out"] == (p["outcome"] == "timed_out"), "timed_out and outcome disagree")
}

// decision checks that policy allowed the run, or that people did, by signature.
func decision(p object, operators []ed25519.PublicKey) {
	d, decided := p["decision"].(object)
	if p["verdict"] == "allow" && !decided {
		return
	}
	must((p["verdict"] == "allow" || p["verdict"] == "ask") && d["answer"] == "allow", "neither policy nor people allowed this")
	must(str(d, "grant_id") != "" && d["grant_id"] == p["lease_id"] && str(d, "separation") == p["approver_separation"] && d["votes"] != nil,
		"the decision is not about this run, or has no votes")
	t, _ := d["terms"].(object)
	exact := t["plan_digest"] == p["plan_digest"] // otherwise the lease must cover a directory, and every answer must say so
	must(t["principal"] == p["principal"] && forTool(t, p["tool"]) && (t["session_id"] == nil || t["session_id"] == p["session_id"]),
		"the grant does not cover this run")
	must(exact || many(t) && wide(d), "the grant does not cover this plan")
	must(d["plan_digest"] == p["plan_digest"] || d["reused"] == true && !exact && isDigest(str(d, "plan_digest")),
		"the decision is about another plan")
	seen := map[string]bool{}
	for _, item := range d["votes"].([]any) {
		v := item.(object)
		vote(v, d, p, operators)
		key, who := "key "+str(v["signature"].(object), "public_key"), "person "+str(v, "by")
		must(!seen[key] && !seen[who], "a key or a person has voted twice")
		seen[key], seen[who] = true, true
	}
}

// vote checks that a person's key signed this answer to this plan.
func vote(v, d, p object, operators []ed25519.PublicKey) {
	s := v["signature"].(object)
	intent, pub := s["intent"].(object), ed25519.PublicKey(unbase64(str(s, "public_key")))
	must(len(operators) == 0 || slices.ContainsFunc(operators, func(k ed25519.PublicKey) bool { return k.Equal(pub) }),
		"an approver's key is not one of the operator keys given")
	must(intent["key_id"] == "op-"+sum(pub)[7:39], "an approver's key id is not the key's")
	signed(s, pub, canon([]byte("palyra/intent/v1\x00"), intent))
	must(intent["body"] == sum(canon([]byte("palyra/intent-body/v1\x00"), s["fields"])), "the fields of an answer are not the signed ones")
	must(intent["method"] == "palyra.v1.ApprovalsService/DecideApproval" && intent["audience"] == p["state_id"],
		"an approver's signature is not for a decision, or for another daemon")
	must(str(intent, "plan_digest") == v["plan_digest"] && v["plan_digest"] == d["plan_digest"], "an answer was given for another plan")
	must(d["terms"].(object)["plan_digest"] != nil || widened(d["terms"].(object), v["widen"]) && wide(v),
		"an answer was given for one plan, and the grant covers more")
	must(v["approval_id"] != "" && v["approval_id"] == d["approval_id"], "an answer belongs to another approval")
	must(v["answer"] == "allow" && v["by"] != "agent" && !strings.HasPrefix(str(v, "by"), "agent:"), "an answer is not an allow by a person")
	fields, _ := s["fields"].(object)
	for _, name := range []string{"approval_id", "answer", "plan_digest", "scope", "ttl_ms", "widen", "uses", "reason"} {
		signed := str(fields, name) // an omitted field is empty; an empty scope is once
		must(signed == str(v, name) || name == "scope" && signed == "" && v[name] == "once", "another "+name+" was signed")
	}
}

// str returns a member as text, "" when it is missing.
func str(o object, name string) string {
	if o[name] == nil {
		return ""
	}
	return fmt.Sprint(o[name])
}

// unbase64 decodes base64, and refuses a second spelling of the same bytes.
func unbase64(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	must(err == nil && base64.StdEncoding.EncodeToString(b) == s, "a text is not canonical base64")
	return b
}

// shapes are the objects of the format: members in their order with their kinds; "?" marks one left out when empty.
var shapes = map[string]string{
	"envelope": `payloadType:s payload:s signatures:[sig`, "sig": `keyid:s sig:s`,
	"statement": `_type:s subject:[subject predicateType:s predicate:predicate`,
	"subject":   `name:s digest:sha256`, "sha256": `sha256:s`,
	"predicate": `attestation_id:s state_id:s call_id:s run_id:s session_id:s principal:s door:s tool:s plan_digest:s input_digest:s verdict:s policies:[s
		bundle_digest:s snapshot_digest:s decision:*decision approver_separation:s grant_id:s lease_id:s tier:s executor:s sandbox_enforcement:enforcement limits:limits
		posture_digest:s outcome:s exit_code:i signal:s timed_out:b kill_reason:s usage:usage runtime?:*runtime stdout_digest:s stderr_digest:s output_digest:s
		outcome_sha256:s egress:[flow egress_omitted:i sealed_path_created:[s left_behind?:[s effects?:s changes?:*effects input_changed?:[s reduced?:[s started_at:s finished_at:s granted:position execution_sha256:s`,
	"decision": `approval_id?:s answer?:s scope?:s grant_id?:s reused?:b reason?:s by?:s method?:s at?:t plan_digest?:s separation?:s votes?:[vote terms?:*terms`,
	"terms":    `principal:s session_id?:s tool:s plan_digest?:s workspace?:s program?:s path_root?:s tier_floor?:s hosts?:[s room?:s tools?:[s read_root?:s group?:s group_digest?:s within?:[s pages?:b branch?:s signer?:s remote?:s host_key?:s`,
	"vote": `vote_id:s approval_id:s answer:s scope?:s ttl_ms?:i widen?:s uses?:i reason?:s by:s method:s peer_uid:i at:t plan_digest:s
		separation:s device?:b signature:signature`,
	"signature": `intent:intent fields:*fields public_key:s sig:s assertion?:*assertion`, "assertion": `authenticator_data:s client_data_json:s`,
	"enforcement": `mode:s mechanisms:[s limits:m`,
	"fields":      `answer?:s approval_id?:s method?:s plan_digest?:s reason?:s scope?:s ttl_ms?:i uses?:i widen?:s`,
	"intent":      `audience:s method:s body:s plan_digest?:s nonce:s time:s key_id:s`,
	"limits":      `wall_ms?:i cpu_ms?:i memory_bytes?:i processes?:i open_files?:i file_bytes?:i output_bytes?:i emitted_bytes?:i disk_bytes?:i`,
	"usage":       `wall_ms:i cpu_ms:i peak_memory_bytes:i bytes_in:i bytes_out:i processes:i`,
	"runtime":     `name:s abi:s skill:s package_digest:s fuel_used:i capabilities_granted:[s capabilities_used:[s refused?:[s`,
	"flow":        `door:s host:s port:i address:s bytes_in:i bytes_out:i verdict:s grant_id:s`, "position": `seq:i leaf:s`,
	"effects": effectsShape,
	"outcome": `outcome:s tool:s layer:s reason_code:s reason:s remedy:s policies:[s exit_code:i signal:s stdout:s stdout_b64:s stderr:s
		stderr_b64:s truncated:b sealed_path_created:[s left_behind?:[s effects?:s changes?:*effects input_changed?:[s output:r session_id:s call_id:s approval_id:s grant_id:s plan_digest:s journal_position:i attestation:envelope`,
}

var types, values = map[string]reflect.Type{
	"envelope": typeOf("envelope"), "statement": typeOf("statement"),
	"outcome": typeOf("outcome"),
}, map[byte]reflect.Type{
	's': reflect.TypeFor[string](), 'i': reflect.TypeFor[int64](), 'b': reflect.TypeFor[bool](), 't': reflect.TypeFor[time.Time](),
	'm': reflect.TypeFor[map[string]string](), 'r': reflect.TypeFor[json.RawMessage](),
}

// typeOf makes the Go type of a kind: a letter of values, a shape, "*x" (or null) or "[x" (a list).
func typeOf(kind string) reflect.Type {
	switch {
	case len(kind) == 1:
		return values[kind[0]]
	case kind[0] == '[':
		return reflect.SliceOf(typeOf(kind[1:]))
	case kind[0] == '*':
		return reflect.PointerTo(typeOf(kind[1:]))
	}
	var fields []reflect.StructField
	for i, member := range strings.Fields(shapes[kind]) {
		name, kind, _ := strings.Cut(strings.Replace(member, "?", ",omitempty,omitzero", 1), ":")
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: typeOf(kind), Tag: reflect.StructTag(`json:"` + name + `"`)})
	}
	return reflect.StructOf(fields)
}

// fits reports whether raw is of that kind and in its only spelling: decoding and encoding give the same
// bytes, so there is no other member, order or white space. Outcomes may spell U+FFFD as an escape.
func fits(kind string, raw []byte) bool {
	again := reread(raw, reflect.New(types[kind]).Interface())
	if kind == "outcome" {
		raw, again = bytes.ReplaceAll(raw, []byte(`\ufffd`), []byte("\uFFFD")), bytes.ReplaceAll(again, []byte(`\ufffd`), []byte("\uFFFD"))
	}
	return again != nil && bytes.Equal(raw, again)
}

// reread decodes raw into v and encodes it again; nil when it cannot be decoded.
func reread(raw []byte, v any) []byte {
	var buf bytes.Buffer
	dec, enc := json.NewDecoder(bytes.NewReader(raw)), json.NewEncoder(&buf)
	dec.UseNumber()
	enc.SetEscapeHTML(false)
	if dec.Decode(v) != nil || enc.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func wide(o object) bool      { return o["scope"] == "session" || o["scope"] == "timeboxed" }
func sum(b []byte) string     { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
func keyID(pub []byte) string { return sum(pub)[7:23] }

// canon appends the canonical, length-prefixed bytes of a JSON value. Numbers of the format are plain integers.
func canon(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		b = append(b, 'z')
	case bool:
		b = append(b, map[bool]byte{true: 't', false: 'f'}[v])
	case string:
		b = fmt.Appendf(b, "s%d:%s", len(v), v)
	case json.Number:
		b = fmt.Appendf(b, "n%d:%s", len(v), v)
	case []any:
		b = fmt.Appendf(b, "l%d:", len(v))
		for _, item := range v {
			b = canon(b, item)
		}
	case object:
		b = fmt.Appendf(b, "m%d:", len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = canon(canon(b, k), v[k])
		}
	}
	return b
}
