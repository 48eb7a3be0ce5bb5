package execute

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
)

// attested is an outcome whose attestation lists the flows.
func attested(t *testing.T, flows ...palyra.EgressFlow) palyra.Outcome {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"predicate": map[string]any{"egress": flows}})
	if err != nil {
		t.Fatal(err)
	}
	return palyra.Outcome{CallID: "CALL", Attestation: &palyra.Envelope{Payload: base64.StdEncoding.EncodeToString(raw)}}
}

func networkText(o palyra.Outcome, daemon caller) string {
	var b bytes.Buffer
	x := &execution{inv: &invocation.Invocation{Stderr: &b}, client: daemon}
	x.network(o)
	return b.String()
}

func TestHostsThatWereNotReachedAreNamed(t *testing.T) {
	got := networkText(attested(t,
		palyra.EgressFlow{Door: "connect", Host: "good.example", Port: 443, Address: "192.0.2.1", Verdict: "allow"},
		palyra.EgressFlow{Host: "*", Verdict: "allow", In: 5}, // added up
		palyra.EgressFlow{Door: "connect", Host: "bad.example", Port: 443, Verdict: "deny"},
		palyra.EgressFlow{Door: "socks", Host: "bad.example", Port: 443, Verdict: "deny"},
		palyra.EgressFlow{Door: "dns", Host: "bad.example", Verdict: "deny"},
		palyra.EgressFlow{Door: "dns", Host: "other.example", Verdict: "deny"},
		palyra.EgressFlow{Door: "connect", Host: "down.example", Port: 80, Verdict: "allow"},
		palyra.EgressFlow{Door: "connect", Host: "2001:db8::1\x1b[2J", Port: 1, Verdict: "deny"}), nil)
	want := `palyra: network: bad.example:443 refused (the run may not reach it)
palyra: network: other.example refused (the run may not reach it)
palyra: network: down.example:80 not reached (it was allowed, and did not answer or has no address)
palyra: network: "[2001:db8::1\x1b[2J]:1" refused (the run may not reach it)
  remedy: name hosts that it needs with --egress HOST:PORT
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// knower is a daemon that knows a call and those that came out of it.
type knower struct {
	caller
	call  palyra.Call
	calls []palyra.Call
}

func (k knower) GetCall(context.Context, palyra.CallID) (palyra.Call, error) { return k.call, nil }

func (k knower) Calls(_ context.Context, f client.CallFilter) (client.CallPage, error) {
	if f.Session != "SESSION" {
		return client.CallPage{}, errors.New("another session's calls")
	}
	return client.CallPage{Calls: k.calls}, nil
}

// asked is a question about a host, and how it ended.
func asked(parent palyra.CallID, host string, kind palyra.OutcomeKind, code palyra.Reason, why string) palyra.Call {
	return palyra.Call{
		Proposal: palyra.Proposal{
			Proposer: palyra.Proposer{Parent: parent},
			Tool:     "palyra.egress.allow",
		},
		Plan:    palyra.Plan{Egress: []string{host}},
		Outcome: &palyra.Outcome{Outcome: kind, ReasonCode: code, Reason: why},
	}
}

// A host that people were asked about, or that the call names, is not one to name.
func TestAnswersAboutHostsAreTold(t *testing.T) {
	refused := func(hosts ...string) palyra.Outcome {
		var flows []palyra.EgressFlow
		for _, h := range hosts {
			flows = append(flows, palyra.EgressFlow{Door: "connect", Host: h, Port: 443, Verdict: "deny"})
		}
		o := attested(t, flows...)
		o.SessionID = "SESSION"
		return o
	}
	open := asked("CALL", "gone.example:443", "", "", "")
	open.Outcome = nil
	k := knower{call: palyra.Call{Plan: palyra.Plan{Egress: []string{"named.example:443", "*.below.example:443"}}}, calls: []palyra.Call{
		asked("OTHER", "bad.example:443", palyra.OutcomeFinished, "", ""),
		asked("CALL", "no.example:443", palyra.OutcomeRefused, palyra.ReasonApprovalDenied, "user:ann denied the call: not\x1b today"),
		asked("CALL", "no.example:443", palyra.OutcomeRefused, palyra.ReasonApprovalExpired, "an older one"),
		asked("CALL", "late.example:443", palyra.OutcomeRefused, palyra.ReasonApprovalExpired, "x"),
		asked("CALL", "left.example:443", palyra.OutcomeCancelled, palyra.ReasonCancelled, "x"), open,
		asked("CALL", "yes.example:443", palyra.OutcomeFinished, "", ""),
	}}
	got := networkText(refused("no.example", "late.example", "left.example"), k)
	want := `palyra: network: no.example:443 refused (user:ann denied the call: not\x1b today)
palyra: network: late.example:443 refused (nobody answered in time)
palyra: network: left.example:443 refused (nobody answered before the command gave up)
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = networkText(refused("gone.example", "named.example", "a.below.example"), k)
	if strings.Count(got, "the call names it") != 2 || !strings.Contains(got, "nobody answered before") || strings.Contains(got, "--egress") {
		t.Error(got)
	}
	for _, host := range []string{"bad.example", "yes.example", "below.example"} {
		if got := networkText(refused(host), k); !strings.Contains(got, "refused (the run may not reach it)") ||
			!strings.Contains(got, "--egress") {
			t.Error(got)
		}
	}
}

func TestManyHostsAreCounted(t *testing.T) {
	var flows []palyra.EgressFlow
	for i := range 12 {
		flows = append(flows, palyra.EgressFlow{Door: "connect", Host: fmt.Sprintf("h%d.example", i), Port: 443, Verdict: "deny"})
	}
	got := networkText(attested(t, flows...), nil)
	if strings.Count(got, "refused") != shownHosts || !strings.Contains(got, "and 7 more; palyra attest show CALL") {
		t.Error(got)
	}
}

func TestNothingIsSaidWithoutRefusals(t *testing.T) {
	for name, o := range map[string]palyra.Outcome{
		"nothing ran": {}, "no flows": attested(t), "not base64": {Attestation: &palyra.Envelope{Payload: "!"}},
		"not JSON": {Attestation: &palyra.Envelope{Payload: "e30"}}, "other JSON": {Attestation: &palyra.Envelope{Payload: "WzFd"}},
		"all well": attested(t, palyra.EgressFlow{Door: "connect", Host: "a.example", Port: 1, Address: "192.0.2.1", Verdict: "allow"}),
	} {
		if got := networkText(o, nil); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
