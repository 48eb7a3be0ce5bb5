package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"palyra"
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

func networkText(o palyra.Outcome) string {
	var b bytes.Buffer
	x := &execution{waiter: &waiter{app: &app{Process: Process{Stderr: &b}}}}
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
		palyra.EgressFlow{Door: "connect", Host: "2001:db8::1\x1b[2J", Port: 1, Verdict: "deny"}))
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

func TestManyHostsAreCounted(t *testing.T) {
	var flows []palyra.EgressFlow
	for i := range 12 {
		flows = append(flows, palyra.EgressFlow{Door: "connect", Host: fmt.Sprintf("h%d.example", i), Port: 443, Verdict: "deny"})
	}
	got := networkText(attested(t, flows...))
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
		if got := networkText(o); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
