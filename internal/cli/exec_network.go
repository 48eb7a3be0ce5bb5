package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"palyra"
	"palyra/internal/show"
)

// shownHosts is how many hosts exec names that were not reached.
const shownHosts = 5

// flowsOf are the connections that an outcome's attestation lists. Nobody decides
// by them here, so the signature is not looked at.
func flowsOf(o palyra.Outcome) []palyra.EgressFlow {
	if o.Attestation == nil {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(o.Attestation.Payload)
	if err != nil {
		return nil
	}
	var s struct {
		Predicate struct {
			Egress []palyra.EgressFlow `json:"egress"`
		} `json:"predicate"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s.Predicate.Egress
}

// endpoint is where a flow went: a lookup has no port.
func endpoint(f palyra.EgressFlow) string {
	if f.Port == 0 {
		return f.Host
	}
	return net.JoinHostPort(f.Host, strconv.Itoa(f.Port))
}

// fate says what became of a flow; "" for a connection that came about.
func fate(f palyra.EgressFlow) string {
	switch {
	case f.Verdict != "allow":
		return "refused (the run may not reach it)"
	case f.Address == "" && f.Door != "": // those added up have neither
		return "not reached (it was allowed, and did not answer or has no address)"
	}
	return ""
}

// unreached are the hosts that were refused or did not answer, each once. A
// lookup is left out where a connection to the host says the same.
func unreached(flows []palyra.EgressFlow) (lines []string, refused bool) {
	byName := map[string]bool{}
	for _, f := range flows {
		if f.Port != 0 && fate(f) != "" {
			byName[f.Host] = true
		}
	}
	said := map[string]bool{}
	for _, f := range flows {
		what := fate(f)
		line := show.Arg(endpoint(f)) + " " + what
		if what == "" || said[line] || f.Port == 0 && byName[f.Host] {
			continue
		}
		said[line] = true
		lines = append(lines, line)
		refused = refused || f.Verdict != "allow"
	}
	return lines, refused
}

// network names the hosts that the command did not reach.
func (x *execution) network(o palyra.Outcome) {
	lines, refused := unreached(flowsOf(o))
	if len(lines) == 0 {
		return
	}
	x.freshLine()
	for _, line := range lines[:min(shownHosts, len(lines))] {
		fmt.Fprintln(x.Stderr, "palyra: network: "+line)
	}
	if n := len(lines) - shownHosts; n > 0 {
		fmt.Fprintf(x.Stderr, "palyra: network: and %d more; palyra attest show %s lists them\n", n, show.Arg(string(o.CallID)))
	}
	if refused {
		fmt.Fprintln(x.Stderr, "  remedy: name hosts that it needs with --egress HOST:PORT")
	}
}
