package approval

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"

	"palyra"
)

// pageArguments are those of a fetch that sends nothing but an address: which page, how much of it, for how long, and where
// else it may be.
var pageArguments = []string{"follow", "max_bytes", "method", "redirect_to", "timeout_ms", "url"}

// fetchesPage reports whether a plan reads a page from hosts by their names, and sends them nothing but its address.
func fetchesPage(p palyra.Plan) bool {
	var all map[string]json.RawMessage
	if p.Tool != palyra.ToolFetch || p.Source != palyra.SourceBuiltin || p.Tier != palyra.TierBuiltin || p.Unshown ||
		len(p.Egress) == 0 || len(p.Bindings) > 0 || json.Unmarshal(p.Arguments, &all) != nil {
		return false
	}
	for name, value := range all {
		if !slices.Contains(pageArguments, name) || name == "method" && string(value) != `"GET"` && string(value) != `"HEAD"` {
			return false
		}
	}
	return !slices.ContainsFunc(p.Egress, func(at string) bool {
		host, _, err := net.SplitHostPort(at)
		_, notAddress := netip.ParseAddr(host)
		return err != nil || notAddress == nil || strings.Contains(host, "*")
	})
}

// hostOffer is the answer for all pages of the hosts of a fetch.
func hostOffer(c *palyra.Call) (palyra.Widening, bool) {
	if !fetchesPage(c.Plan) || c.Verdict.Need.Fresh || slices.Contains(c.Proposal.Labels, palyra.LabelSecret) {
		return palyra.Widening{}, false
	}
	return palyra.Widening{Name: palyra.WidenHost, Label: "reading any page of " + strings.Join(c.Plan.Egress, ", ")}, true
}

// pageExceptions are what an answer for the pages of a host never covers, in words.
const pageExceptions = "no sending but of addresses, no headers, no other host, nothing after a secret was used"

// onlyPages reports whether terms that are for pages permit a call, beyond what all terms say. What came in from outside
// before makes it no riskier: that is what pages are.
func onlyPages(t palyra.Terms, c *palyra.Call) bool {
	return t.PathRoot == "" && t.ReadRoot == "" && t.Group == "" && fetchesPage(c.Plan) &&
		!slices.Contains(c.Proposal.Labels, palyra.LabelSecret)
}
