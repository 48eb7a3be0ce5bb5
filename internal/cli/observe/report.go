package observe

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"palyra"
)

// Report is what would have become of observed calls.
type Report struct {
	Since   time.Time `json:"since,omitzero"` // the first of them
	Until   time.Time `json:"until,omitzero"` // the last
	Calls   int64     `json:"calls"`
	Allowed int64     `json:"allowed"`
	Covered int64     `json:"covered"` // by an answer that was there
	Asked   int64     `json:"asked"`
	Refused int64     `json:"refused"`
	Kinds   []Kind    `json:"kinds"`         // what would have been asked about or refused, most frequent first
	Hosts   []Tally   `json:"hosts"`         // that calls named; where the commands of a shell went is not seen
	Outside []Tally   `json:"files_outside"` // of the workspace
	Secrets []Tally   `json:"secrets"`       // places and bindings of secrets
	Omitted int64     `json:"omitted"`       // kinds, hosts and places beyond those listed
}

// Kind is what calls that are alike would have met.
type Kind struct {
	Tool    palyra.ToolName `json:"tool"`
	Would   string          `json:"would"` // ask or refuse
	Why     string          `json:"why"`   // a policy's id, or a reason code
	Count   int64           `json:"count"`
	Example string          `json:"example"` // what one of them does
	Call    palyra.CallID   `json:"call_id"` // that one
}

// Tally is a name, and how many calls had it.
type Tally struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// maxListed is the most of one sort that a report lists, and maxKept the most that it counts.
const maxListed, maxKept = 100, 10_000

// counter counts observed calls.
type counter struct {
	report                  Report
	kinds                   map[[3]string]*Kind
	hosts, outside, secrets map[string]int64
}

// newCounter returns a counter that has seen none.
func newCounter() *counter {
	return &counter{
		kinds: map[[3]string]*Kind{}, hosts: map[string]int64{}, outside: map[string]int64{}, secrets: map[string]int64{},
	}
}

// Add counts a call, if it was observed.
func (n *counter) Add(c *palyra.Call) {
	if c.State != palyra.Observed || c.Outcome == nil {
		return
	}
	r := &n.report
	r.Calls++
	if r.Since.IsZero() || c.Proposed.Before(r.Since) {
		r.Since = c.Proposed
	}
	if c.Proposed.After(r.Until) {
		r.Until = c.Proposed
	}
	o := c.Outcome
	switch {
	case o.ReasonCode == "" && o.Layer == palyra.LayerApproval:
		r.Covered++
	case o.ReasonCode == "":
		r.Allowed++
	case o.ReasonCode == palyra.ReasonApprovalNotAwaited:
		r.Asked++
		n.kind(c, "ask", cmp.Or(first(o.Policies), string(o.ReasonCode)))
	default:
		r.Refused++
		n.kind(c, "refuse", cmp.Or(first(o.Policies), string(o.ReasonCode)))
	}
	for _, host := range c.Plan.Egress {
		n.tally(n.hosts, host)
	}
	for _, b := range c.Plan.Bindings {
		n.tally(n.secrets, "binding "+b)
	}
	for _, f := range c.Verdict.Risk.Factors {
		switch name, detail, _ := strings.Cut(f, ": "); name {
		case "outside_read", "outside_workspace", "outside_path":
			n.tally(n.outside, detail)
		case "secret_place":
			n.tally(n.secrets, detail)
		}
	}
	if o.ReasonCode == palyra.ReasonPathOutside {
		n.tally(n.outside, cmp.Or(pathOf(c), o.Reason))
	}
}

// pathOf is the path that a call of a file tool names.
func pathOf(c *palyra.Call) string {
	var args struct {
		Path string `json:"path"`
	}
	_ = json.Unmarshal(c.Proposal.Arguments, &args) // other tools have none
	return args.Path
}

func (n *counter) kind(c *palyra.Call, would, why string) {
	key := [3]string{string(c.Proposal.Tool), would, why}
	k := n.kinds[key]
	if k == nil {
		if len(n.kinds) >= maxKept {
			n.report.Omitted++
			return
		}
		k = &Kind{Tool: palyra.Clip(c.Proposal.Tool, 512), Would: would, Why: why, Call: c.ID}
		k.Example = palyra.Clip(cmp.Or(c.Detail.Summary, c.Outcome.Reason), 300)
		n.kinds[key] = k
	}
	k.Count++
}

func (n *counter) tally(of map[string]int64, name string) {
	name = palyra.Clip(name, 512)
	if _, known := of[name]; !known && len(of) >= maxKept {
		n.report.Omitted++
		return
	}
	of[name]++
}

// Report returns what was counted so far.
func (n *counter) Report() Report {
	r := n.report
	r.Kinds = []Kind{}
	for _, k := range n.kinds {
		r.Kinds = append(r.Kinds, *k)
	}
	slices.SortFunc(r.Kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Would, b.Would), cmp.Compare(a.Why, b.Why))
	})
	if over := len(r.Kinds) - maxListed; over > 0 {
		r.Kinds, r.Omitted = r.Kinds[:maxListed], r.Omitted+int64(over)
	}
	r.Hosts, r.Outside, r.Secrets = n.most(n.hosts, &r), n.most(n.outside, &r), n.most(n.secrets, &r)
	return r
}

func (n *counter) most(of map[string]int64, r *Report) []Tally {
	list := make([]Tally, 0, len(of))
	for name, count := range of {
		list = append(list, Tally{name, count})
	}
	slices.SortFunc(list, func(a, b Tally) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	if over := len(list) - maxListed; over > 0 {
		list, r.Omitted = list[:maxListed], r.Omitted+int64(over)
	}
	return list
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
