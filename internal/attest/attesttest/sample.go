package attesttest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"palyra"
	"palyra/internal/hostgroup"
	"palyra/internal/passkey/passkeytest"
)

// Sample is a text for a verifier and what it stands for.
type Sample struct {
	Name string
	Text []byte
}

// Genuine returns texts that a verifier must accept: each run as an outcome, as an envelope, and indented.
func Genuine() []Sample {
	var list []Sample
	for _, c := range []struct {
		name   string
		change func(*SampleRun)
	}{
		{"allowed by a person", nil},
		{"allowed by two", func(r *SampleRun) { r.Vote(Bob, "user:bob", nil) }},
		{"allowed by a passkey", func(r *SampleRun) { *r = *PasskeyRun() }},
		{"allowed by two passkeys", func(r *SampleRun) {
			*r = *PasskeyRun()
			r.ByPasskey(BobsPasskey, "user:bob", func(q *passkeytest.Ask) {
				q.Flags = passkeytest.Present | passkeytest.Verified | passkeytest.Eligible | passkeytest.BackedUp
				q.Origin, q.Client = "https://palyra.example", func(challenge, origin string) string {
					return `{"type":"webauthn.get","challenge":"` + challenge + `","origin":"` + origin + `","other":{"a":[1]}}`
				}
			}, nil)
		}},
		{"allowed by policy", ByPolicy},
		{"allowed by policy, bare", func(r *SampleRun) {
			ByPolicy(r)
			r.Predicate.Policies, r.Predicate.Egress, r.Predicate.Enforcement, r.Predicate.Limits = nil, nil, palyra.Enforcement{}, palyra.Limits{}
		}},
		{"covered by an earlier answer", reused},
		{"covered by an earlier answer to another plan", func(r *SampleRun) { widened(r); otherPlan(r) }},
		{"covered by two earlier answers to another plan", func(r *SampleRun) {
			widened(r)
			r.Vote(Bob, "user:bob", widen("timeboxed", "path_root"))
			otherPlan(r)
		}},
		{"asked about one plan, answered for more", func(r *SampleRun) {
			widened(r)
			r.Outcome.ApprovalID, r.Predicate.Decision.Reused = r.Predicate.Decision.Approval, false
		}},
		{"answered for more, granted for the plan", func(r *SampleRun) {
			widened(r)
			*r.Predicate.Decision.Terms = *NewRun().Predicate.Decision.Terms
		}},
		{"covered by an earlier answer for a group of hosts", func(r *SampleRun) { forGroup(r); otherPlan(r) }},
		{"covered by an earlier answer for pages", func(r *SampleRun) { forPages(r); otherPlan(r) }},
		{"grant of no session", func(r *SampleRun) { r.Predicate.Decision.Terms.Session = "" }},
		{"scope left out", func(r *SampleRun) {
			r.Revote(func(v *palyra.Vote) {
				v.Scope, v.TTLMS, v.Uses = palyra.ScopeOnce, 0, 0
				for _, name := range []string{"scope", "ttl_ms", "uses"} {
					delete(v.Signature.Fields, name)
				}
			})
		}},
		{"timed out", func(r *SampleRun) {
			r.Outcome.Outcome, r.Predicate.Outcome, r.Predicate.TimedOut = palyra.OutcomeTimedOut, palyra.OutcomeTimedOut, true
			r.Outcome.Signal, r.Predicate.Signal, r.Predicate.KillReason = "SIGKILL", "SIGKILL", "deadline"
		}},
		{"output that is not text", func(r *SampleRun) { r.Stdout, r.Stderr = []byte("\xff\xfe\x00"), []byte("\xc3\x28") }},
		{"no output", func(r *SampleRun) { r.Stdout, r.Stderr, r.Outcome.Output = nil, nil, nil }},
		{"output cut", func(r *SampleRun) { r.Outcome.Stdout, r.Outcome.Truncated = "hel … you", true }},
		{"output that looks like an envelope", func(r *SampleRun) {
			r.Outcome.Output = json.RawMessage(
				`{"a":1,"attestation":{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[]}}`)
			r.Stdout = []byte(`,"attestation":{"payloadType":` + "\n")
		}},
		{"text that is not UTF-8", func(r *SampleRun) {
			r.Outcome.Reason, r.Predicate.KillReason = "no such file: \xff\\ufffd \uFFFD", "bad <&> \u2028 \x00 \x7f"
		}},
		{"numbers of free form", func(r *SampleRun) {
			r.Outcome.Output = json.RawMessage(`[1.0,1e400,-0,0.10,123456789012345678901234567890]`)
			r.Predicate.ExitCode, r.Outcome.ExitCode = -1, -1
		}},
	} {
		r := NewRun()
		if c.change != nil {
			c.change(r)
		}
		outcome, envelope := r.Seal()
		list = append(list, Sample{c.name, outcome}, Sample{c.name + ", envelope", envelope},
			Sample{c.name + ", indented", indent(outcome)}, Sample{c.name + ", envelope indented", indent(envelope)})
	}
	return list
}

// ByPolicy turns r into a run that nobody was asked about.
func ByPolicy(r *SampleRun) {
	r.Predicate.Verdict, r.Predicate.Decision, r.Predicate.Separation, r.Predicate.LeaseID, r.Outcome.ApprovalID = palyra.Allow, nil, "", "",
		""
}

// reused turns r into a run that an earlier answer to the same plan covered.
func reused(r *SampleRun) { r.Outcome.ApprovalID, r.Predicate.Decision.Reused = "", true }

// widened makes the earlier answer one for all writes under a directory.
func widened(r *SampleRun) {
	reused(r)
	d := r.Predicate.Decision
	d.Scope, d.Terms.PlanDigest, d.Terms.PathRoot, d.Terms.Program, d.Terms.Hosts = palyra.ScopeSession, "", "notes", "", nil
	r.Revote(widen("session", "path_root"))
}

// forGroup makes the earlier answer one for a group of hosts, in any session.
func forGroup(r *SampleRun) {
	reused(r)
	d, hosts := r.Predicate.Decision, []string{"a.example:443", "b.example:443"}
	d.Scope = palyra.ScopeTimeboxed
	*d.Terms = palyra.Terms{
		Principal: d.Terms.Principal, Tool: d.Terms.Tool, Workspace: d.Terms.Workspace, Hosts: hosts, Group: "mirror",
		GroupDigest: palyra.Digest(hostgroup.Digest("mirror", hosts)), Within: []string{"/work"},
	}
	r.Revote(widen("timeboxed", "group:mirror:"+string(d.Terms.GroupDigest)))
}

// forPages makes the earlier answer one for pages of a host.
func forPages(r *SampleRun) {
	reused(r)
	d := r.Predicate.Decision
	d.Scope, d.Terms.PlanDigest, d.Terms.Program, d.Terms.Pages = palyra.ScopeTimeboxed, "", "", true
	r.Revote(widen("timeboxed", "host"))
}

// otherPlan lets another plan run than the one that was decided.
func otherPlan(r *SampleRun) {
	r.Predicate.PlanDigest = palyra.SumBytes([]byte("another plan"))
	r.Outcome.PlanDigest = r.Predicate.PlanDigest
}

// widen signs an answer of that scope and width.
func widen(scope, width string) func(*palyra.Vote) {
	return func(v *palyra.Vote) {
		v.Scope, v.TTLMS, v.Uses, v.Widen = palyra.Scope(scope), 0, 0, width
		for name, value := range map[string]string{"scope": scope, "ttl_ms": "", "uses": "", "widen": width} {
			if delete(v.Signature.Fields, name); value != "" {
				v.Signature.Fields[name] = value
			}
		}
	}
}

func indent(raw []byte) []byte {
	var buf bytes.Buffer
	must(0, json.Indent(&buf, raw, " ", "\t"))
	return append(buf.Bytes(), "\r\n \t"...)
}

// Forgeries returns texts that a verifier must refuse although the daemon's key signed them.
func Forgeries() []Sample {
	list := append(structural(), rewritten()...)
	for _, c := range forgedRuns() {
		r := NewRun()
		c.change(r)
		outcome, envelope := r.Seal()
		list = append(list, Sample{c.name, outcome})
		if !c.outcomeOnly {
			list = append(list, Sample{c.name + ", envelope", envelope})
		}
	}
	return list
}

// structural returns whole texts that are no attestation.
func structural() []Sample {
	outcome, envelope := NewRun().Seal()
	refused := must(palyra.Outcome{Outcome: palyra.OutcomeRefused, Tool: "x"}.Marshal())
	twice := bytes.Replace(envelope, []byte(`"signatures":[`), []byte(`"signatures":[`+
		string(envelope[bytes.Index(envelope, []byte(`{"keyid"`)):len(envelope)-2])+`,`), 1)
	other := must(json.Marshal(EnvelopeOf(Daemon, "application/json", Payload(envelope))))
	stranger := EnvelopeOf(NewKey("stranger"), palyra.PayloadType, Payload(envelope))
	renamed := stranger
	renamed.Signatures = []palyra.EnvelopeSignature{{KeyID: Daemon.KeyID(), Sig: stranger.Signatures[0].Sig}}
	return []Sample{
		{"nothing", nil},
		{"null", []byte("null")},
		{"empty object", []byte("{}")},
		{"list", []byte("[]")},
		{"refused call", refused},
		{"two values", append(bytes.Clone(envelope), envelope...)},
		{"envelope in a list", []byte("[" + string(envelope) + "]")},
		{"signature twice", twice},
		{"no signature", bytes.Replace(envelope, envelope[bytes.Index(envelope, []byte(`{"keyid"`)):len(envelope)-2], nil, 1)},
		{"another payload type", other},
		{"another key", must(json.Marshal(stranger))},
		{"another key under our id", must(json.Marshal(renamed))},
		{"byte order mark", append([]byte("\xef\xbb\xbf"), envelope...)},
		{"extra member", bytes.Replace(envelope, []byte(`{"payloadType"`), []byte(`{"x":1,"payloadType"`), 1)},
		{"extra member after", append(envelope[:len(envelope)-1:len(envelope)-1], `,"x":1}`...)},
		{"repeated member", bytes.Replace(envelope, []byte(`{"payloadType"`), []byte(`{"payloadType":"","payloadType"`), 1)},
		{"other case", bytes.Replace(envelope, []byte(`"payload":`), []byte(`"Payload":`), 1)},
		{"escaped key", bytes.Replace(envelope, []byte(`"payload":`), []byte(`"p\u0061yload":`), 1)},
		{"escaped value", bytes.Replace(envelope, []byte(`in-toto`), []byte(`in\u002dtoto`), 1)},
		{"line break in base64", bytes.Replace(envelope, []byte(`"payload":"eyJ`), []byte(`"payload":"e\nyJ`), 1)},
		{"unpadded base64", bytes.Replace(envelope, []byte(`=="}]`), []byte(`"}]`), 1)},
		{"other trailing bits", trailingBits(envelope)},
		{"outcome with a member after", append(outcome[:len(outcome)-1:len(outcome)-1], `,"x":1}`...)},
		{"outcome with another member", bytes.Replace(outcome, []byte(`{"outcome"`), []byte(`{"x":1,"outcome"`), 1)},
		{"outcome with two attestations", bytes.Replace(outcome, []byte(`,"attestation":`), []byte(`,"attestation":null,"attestation":`), 1)},
		{"outcome cut off", outcome[:len(outcome)-1]},
		{"envelope of another call", swapEnvelope(outcome)},
	}
}

// trailingBits spells the signature's base64 with other unused bits.
func trailingBits(envelope []byte) []byte {
	i := bytes.LastIndex(envelope, []byte(`==`)) - 1
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	b := bytes.Clone(envelope)
	b[i] = alphabet[strings.IndexByte(alphabet, b[i])|1]
	return b
}

func swapEnvelope(outcome []byte) []byte {
	r := NewRun()
	r.Predicate.CallID = "01JCCALL000000000000000001"
	r.Outcome.CallID = r.Predicate.CallID
	_, envelope := r.Seal()
	i := bytes.LastIndex(outcome, []byte(`,"attestation":`))
	return append(append(outcome[:i:i], `,"attestation":`...), append(envelope, '}')...)
}

// rewritten returns envelopes whose payload is signed but not written as ours.
func rewritten() []Sample {
	_, envelope := NewRun().Seal()
	payload := string(Payload(envelope))
	var list []Sample
	for _, c := range []struct{ name, from, to string }{
		{"unknown key", `"door":`, `"x":1,"door":`},
		{"repeated key", `"door":`, `"door":"api","door":`},
		{"case of a key", `"door":`, `"Door":`},
		{"key missing", `"door":"cli",`, ``},
		{"keys swapped", `"door":"cli","tool":"palyra.process.run"`, `"tool":"palyra.process.run","door":"cli"`},
		{"escaped text", `"cli"`, `"c\u006ci"`},
		{"white space", `"door":`, `"door": `},
		{"another type", `"exit_code":3`, `"exit_code":"3"`},
		{"number with a point", `"exit_code":3`, `"exit_code":3.0`},
		{"number too large", `"exit_code":3`, `"exit_code":99999999999999999999`},
		{"minus nought", `"exit_code":3`, `"exit_code":-0`},
		{"text for null", `"egress":[`, `"egress":[null,`},
		{"unknown effect", `"verdict":"ask"`, `"verdict":"maybe"`},
		{"empty value spelled out", `"wall_ms":120000`, `"wall_ms":120000,"cpu_ms":0`},
		{"empty list spelled out", `"reason":"go on","by"`, `"widen":"","reason":"go on","by"`},
		{"map out of order", `"memory":"rlimit","wall":"context"`, `"wall":"context","memory":"rlimit"`},
		{
			"fields out of order", `"answer":"allow","approval_id":"01JCAPPROVAL00000000000000"`,
			`"approval_id":"01JCAPPROVAL00000000000000","answer":"allow"`,
		},
		{"field repeated", `"fields":{`, `"fields":{"answer":"deny",`},
		{"time of another spelling", `"at":"2026-11-15T12:00:00.123456789Z"`, `"at":"2026-11-15T12:00:00.123456789+00:00"`},
		{"statement type", palyra.StatementType, "https://in-toto.io/Statement/v0.1"},
		{"predicate type", palyra.PredicateType, palyra.PredicateType + "x"},
		{"subject name", `palyra:call:`, `palyra:call:0`},
		{"second subject", `"subject":[`, `"subject":[{"name":"x","digest":{"sha256":"00"}},`},
		{"no subject", `"subject":[{`, `"subject":[],"x":[{`},
		{"subject digest", `"sha256":"`, `"sha256":"0`},
		{"digest of another kind", `"digest":{"sha256"`, `"digest":{"sha512"`},
		{"trailing data", `}}`, `}}{}`},
		{"not UTF-8", `"cli"`, "\"\xff\""},
		{"execution digest", `"execution_sha256":"sha256:`, `"execution_sha256":"sha256:0`},
		{"execution digest missing", `,"execution_sha256":`, `,"execution_sha257":`},
		{"terms that are none", `"terms":{`, `"terms":null,"x":{`},
		{"empty term spelled out", `"tier_floor":"C"`, `"path_root":"","tier_floor":"C"`},
		{"unknown term", `"tier_floor":"C"`, `"tier_floor":"C","x":1`},
		{"a predicate field changed", `"mode":"strict"`, `"mode":"lenient"`},
	} {
		text := strings.Replace(payload, c.from, c.to, 1)
		if c.name == "trailing data" {
			text = payload + "{}"
		}
		if text == payload {
			panic("attesttest: " + c.name + " changes nothing")
		}
		list = append(list, Sample{"payload: " + c.name, Envelope([]byte(text))})
	}
	return append(list, Sample{"payload: empty", Envelope(nil)}, Sample{"payload: null", Envelope([]byte("null"))},
		Sample{"payload: object", Envelope([]byte("{}"))})
}

type forgedRun struct {
	name        string
	outcomeOnly bool // the envelope alone is fine
	change      func(*SampleRun)
}

func b64(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
