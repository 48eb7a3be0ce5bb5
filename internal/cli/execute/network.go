package execute

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// shownHosts is how many unreached hosts exec names.
const shownHosts = 5

// flowsOf returns the connections in an outcome's attestation. They decide nothing here, so the
// signature is not checked.
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

// hosts holds what is known of the hosts that a command may reach.
type hosts struct {
	named   []string          // in the plan
	answers map[string]string // host:port that people were asked about, and why it was not allowed
}

// names reports whether the plan names the host of a flow.
func (h hosts) names(f palyra.EgressFlow) bool {
	return slices.ContainsFunc(h.named, func(rule string) bool {
		suffix, below := strings.CutPrefix(rule, "*")
		return rule == screen.Endpoint(f) || below && strings.HasSuffix(screen.Endpoint(f), suffix)
	})
}

// flowEnd describes the end of a flow, "" for a successful connection; grant is whether naming the host would help.
func (h hosts) flowEnd(f palyra.EgressFlow) (what string, grant bool) {
	why, asked := h.answers[screen.Endpoint(f)]
	switch {
	case f.Verdict != palyra.FlowAllowed && asked:
		return "refused (" + show.Middle(why, 200) + ")", false
	case f.Verdict != palyra.FlowAllowed && h.names(f):
		return "refused (the call names it, but its address is not public, or the request was for another host)", false
	case f.Verdict != palyra.FlowAllowed:
		return "refused (the run may not reach it)", true
	case f.Address == "" && f.Door != "": // flows that were added up have neither
		return "not reached (it was allowed, and did not answer or has no address)", false
	}
	return "", false
}

// unreached returns the hosts that were refused or did not answer, each once. It leaves out a
// lookup where a connection to the host says the same.
func (h hosts) unreached(flows []palyra.EgressFlow) (lines []string, grant bool) {
	byName := map[string]bool{}
	for _, f := range flows {
		if what, _ := h.flowEnd(f); f.Port != 0 && what != "" {
			byName[f.Host] = true
		}
	}
	said := map[string]bool{}
	for _, f := range flows {
		what, helps := h.flowEnd(f)
		line := show.Arg(screen.Endpoint(f)) + " " + what
		if what == "" || said[line] || f.Port == 0 && byName[f.Host] {
			continue
		}
		said[line] = true
		lines = append(lines, line)
		grant = grant || helps
	}
	return lines, grant
}

// lister lists calls.
type lister interface {
	// Calls lists calls, newest first.
	Calls(ctx context.Context, f client.CallFilter) (client.CallPage, error)
}

const (
	hostPatience = 2 * time.Second
	hostCalls    = 200 // calls that are searched for such questions
)

// hosts finds the hosts of the plan, and the answers about other hosts. It is for people to read,
// so missing information is left out.
func (x *execution) hosts(o palyra.Outcome) hosts {
	h := hosts{answers: map[string]string{}}
	if x.client == nil {
		return h
	}
	ctx, done := context.WithTimeout(context.Background(), hostPatience)
	defer done()
	if c, err := x.client.GetCall(ctx, o.CallID); err == nil {
		h.named = c.Plan.Egress
	}
	l, ok := x.client.(lister)
	if !ok {
		return h
	}
	page, err := l.Calls(ctx, client.CallFilter{Session: o.SessionID, Limit: hostCalls})
	if err != nil {
		return h
	}
	for _, c := range page.Calls {
		if c.Proposal.Parent != o.CallID || c.Proposal.Tool != palyra.ToolAllowHost || len(c.Plan.Egress) != 1 {
			continue
		}
		at, why := c.Plan.Egress[0], answerTo(c)
		if _, newer := h.answers[at]; !newer && why != "" {
			h.answers[at] = why
		}
	}
	return h
}

// answerTo is why a question about a host was not answered with yes; "" when it was.
func answerTo(c palyra.Call) string {
	switch {
	case c.Outcome == nil || c.Outcome.Outcome == palyra.OutcomeCancelled:
		return "nobody answered before the command gave up"
	case c.Outcome.Outcome == palyra.OutcomeFinished && c.Outcome.ReasonCode == "":
		return ""
	case c.Outcome.ReasonCode == palyra.ReasonApprovalExpired:
		return "nobody answered in time"
	}
	return cmp.Or(c.Outcome.Reason, "it was not allowed")
}

// network names the hosts that the command did not reach.
func (x *execution) network(o palyra.Outcome) {
	flows := flowsOf(o)
	lines, grant := hosts{}.unreached(flows)
	if len(lines) == 0 {
		return
	}
	if grant {
		lines, grant = x.hosts(o).unreached(flows)
	}
	x.freshLine()
	for _, line := range lines[:min(shownHosts, len(lines))] {
		fmt.Fprintln(x.inv.Stderr, "palyra: network: "+line)
	}
	if n := len(lines) - shownHosts; n > 0 {
		fmt.Fprintf(x.inv.Stderr, "palyra: network: and %d more; palyra attest show %s lists them\n", n, show.Arg(string(o.CallID)))
	}
	if grant {
		fmt.Fprintln(x.inv.Stderr, "  remedy: name hosts that it needs with --egress HOST:PORT")
	}
}
