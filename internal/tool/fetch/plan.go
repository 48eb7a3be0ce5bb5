package fetch

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/tool"
)

type fetcher struct{ Config }

const (
	summaryLength = 240
	bodyInNote    = 4 << 10
)

// Plan implements tool.Tool. It looks nothing up.
func (f fetcher) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	if f.Open == nil {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "fetching is switched off").
			WithRemedy("an operator can switch the egress guard on")
	}
	r, a, err := f.decode(*p)
	if err != nil {
		return err
	}
	if p.Limits.WallMS, err = a.wall(p.Limits.WallMS); err != nil {
		return err
	}
	p.ReadOnly = false // whatever the method, the server's action is not known
	p.Egress = r.targets
	p.Unshown = a.BodyB64 != nil && show.Opaque(r.body)
	p.Detail.Summary = r.method + " " + show.Shorten(r.first.url.String(), summaryLength)
	p.Detail.Notes = append(p.Detail.Notes, f.notes(r)...)
	return f.lend(ctx, env, r, a, p)
}

// notes tells people what they should know of a request.
func (c Config) notes(r request) []string {
	var notes []string
	if r.first.url.Scheme == "http" {
		notes = append(notes, "goes over the network in clear: anybody on the way can read and change it")
	}
	notes = append(notes, c.inner(r.targets)...)
	if len(r.body) > 0 {
		notes = append(notes, sent(r.body))
	}
	if len(r.targets) > 1 {
		notes = append(notes, "a redirect may lead to "+strings.Join(r.targets, ", "))
	}
	for _, name := range secretQuery(r.first.url) {
		notes = append(notes, fmt.Sprintf("the address has a parameter %s, which looks like a secret and is recorded in clear",
			strconv.Quote(palyra.Clip(name, 64))))
	}
	return notes
}

// inner lists the targets that are addresses of this machine or of a private network: a plan that
// names one asks for it.
func (c Config) inner(targets []string) []string {
	var notes []string
	for _, t := range targets {
		if at, err := netip.ParseAddrPort(t); err == nil && !c.public(at.Addr()) {
			notes = append(notes, t+" is not an address of the public Internet: it leads to this machine or to a network that it is part of")
		}
	}
	return notes
}

// public reports whether the guard takes an address for public. Without a guard only addresses that
// cannot be public are known.
func (c Config) public(a netip.Addr) bool {
	if c.Hosts == nil {
		return a.IsGlobalUnicast() && !a.IsPrivate()
	}
	return c.Hosts.Public(a)
}

// secretQuery names the parameters of an address that look like secrets.
func secretQuery(u *url.URL) []string {
	const most = 4
	var names []string
	for pair := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(plainQuery(value), "{{") {
			continue // a placeholder
		}
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if secretive(name) && len(names) < most && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// sent describes a request's body, for people.
func sent(body []byte) string {
	if !utf8.Valid(body) {
		return "sends " + show.Bytes(len(body)) + ", not text"
	}
	return fmt.Sprintf("sends %s: %s", show.Bytes(len(body)), strconv.Quote(show.Shorten(string(body), bodyInNote)))
}
