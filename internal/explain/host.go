package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/rpc/wire"
)

// hosts returns the changes that name the hosts which a run was refused, where its call can name them.
func (p *Explainer) hosts(ctx context.Context, again, c *palyra.Call) []wire.Flip {
	att, err := p.Attester.Get(ctx, string(c.ID))
	args, ok := object(c.Proposal.Arguments)
	list := map[palyra.ToolName]string{palyra.ToolProcessRun: "egress", palyra.ToolFetch: "redirect_to"}[c.Proposal.Tool]
	if err != nil || !ok || list == "" {
		return nil
	}
	known := named(c.Proposal)
	refused := slices.DeleteFunc(refusedHosts(att.Predicate.Egress), func(h string) bool { return slices.Contains(known, h) })
	if len(refused) == 0 { // named and refused all the same: it leads to an address that is never allowed
		return p.allowRanges(ctx, again)
	}
	names, _ := args[list].([]any)
	for _, h := range refused {
		names = append(names, h)
	}
	changed := maps.Clone(args)
	changed[list] = names
	f, ok := p.tryCall(ctx, again, changed)
	if !ok || f.Becomes == palyra.Deny {
		return nil
	}
	f.Kind, f.Text = flipHost, fmt.Sprintf("name it before the start, in %s: %s", list, strings.Join(refused, ", "))
	return []wire.Flip{f}
}

// allowRanges let a name lead to an address that is not public, one network at a time.
func (p *Explainer) allowRanges(ctx context.Context, c *palyra.Call) []wire.Flip {
	now := p.Settings.Egress
	var out []wire.Flip
	for _, one := range []struct{ text, prefix string }{
		{"this machine", loopback},
		{"a network 10.x", "10.0.0.0/8"},
		{"a network 192.168.x", "192.168.0.0/16"},
		{"a network 172.16.x to 172.31.x", "172.16.0.0/12"},
	} {
		then := now
		if then.PrivateRanges = slices.Concat(now.PrivateRanges, []string{one.prefix}); slices.Contains(now.PrivateRanges, one.prefix) {
			continue
		}
		for _, s := range egressSettings(now, then) {
			s.text, s.open = fmt.Sprintf("if the name leads to %s, let that be reached by name", one.text), openName
			if f, ok := p.trySetting(ctx, c, s); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// refusedHosts are the places that a run was refused, each once.
func refusedHosts(flows []palyra.EgressFlow) []string {
	var out []string
	for _, f := range flows {
		at := net.JoinHostPort(f.Host, strconv.Itoa(f.Port))
		if f.Verdict != palyra.FlowAllowed && f.Port != 0 && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// named are the hosts that a call names.
func named(p palyra.Proposal) []string {
	var args struct {
		URL        string   `json:"url"`
		RedirectTo []string `json:"redirect_to"`
		Egress     []string `json:"egress"`
		Host       string   `json:"host"`
		Port       int64    `json:"port"`
	}
	if err := json.Unmarshal(p.Arguments, &args); err != nil {
		return nil
	}
	switch p.Tool {
	case palyra.ToolFetch:
		u, err := url.Parse(args.URL)
		if err != nil || u.Hostname() == "" {
			return nil
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80"}[u.Scheme]
		}
		port = cmp.Or(port, "443")
		return append([]string{net.JoinHostPort(u.Hostname(), port)}, args.RedirectTo...)
	case palyra.ToolAllowHost:
		return []string{net.JoinHostPort(args.Host, fmt.Sprint(args.Port))}
	}
	return args.Egress
}

// hostSettings are the smallest changes of the configuration under which the guard lets plans name the hosts.
func hostSettings(now config.Egress, wanted []string) []setting {
	refused := slices.DeleteFunc(slices.Clone(wanted), func(h string) bool { return takes(now, []string{h}) })
	if len(refused) == 0 {
		return nil
	}
	hosts, ranges := now, now
	hosts.AllowedHosts = slices.Concat(now.AllowedHosts, refused)
	ranges.PrivateRanges = slices.Concat(now.PrivateRanges, []string{loopback})
	both := hosts
	both.PrivateRanges = ranges.PrivateRanges
	tries := []config.Egress{ranges, hosts, both}
	if len(now.AllowedHosts) == 0 { // a list would refuse every other host
		tries = tries[:1]
	}
	for _, one := range tries {
		if takes(one, refused) {
			return egressSettings(now, one)
		}
	}
	return nil
}

// loopback is the network that names of this machine lead to.
const loopback = "127.0.0.0/8"

// takes reports whether a guard with these settings lets plans name the hosts.
func takes(c config.Egress, hosts []string) bool {
	ranges, err := c.Prefixes()
	if err != nil {
		return false
	}
	g, err := egress.New(egress.Config{
		Mode: palyra.NetworkMode(c.Mode), Allowed: c.AllowedHosts, HostNetwork: c.HostNetwork == "on",
		PrivateRanges: ranges,
	})
	if err != nil {
		return false
	}
	_, err = g.Check(hosts)
	return err == nil
}

// egressSettings is the change from one configuration to another.
func egressSettings(now, then config.Egress) []setting {
	out := setting{kind: flipConfig, set: func(c *config.Config) { c.Egress = then }}
	var texts []string
	for _, one := range []struct {
		key, text string
		had, has  []string
	}{
		{"egress.private_ranges", "let addresses of this machine be reached by name", now.PrivateRanges, then.PrivateRanges},
		{"egress.allowed_hosts", "let the host be asked for", now.AllowedHosts, then.AllowedHosts},
	} {
		if len(one.has) == len(one.had) {
			continue
		}
		raw, err := canon.JSON(one.has)
		if err != nil {
			return nil
		}
		texts, out.uses = append(texts, one.text), append(out.uses, one.key+" = "+string(raw))
	}
	out.text = strings.Join(texts, ", and ")
	return []setting{out}
}
