package fetch

import (
	"net"
	"net/http"
	"slices"
	"strconv"

	"palyra"
	"palyra/internal/show"
)

// next is the request that an answer leads to; nil after the last one. The method changes as RFC
// 9110, 15.4 has it.
func (x *exchange) next(h hop, answer *http.Response) (*hop, error) {
	place := answer.Header.Get("Location")
	if !redirects(answer.StatusCode) || place == "" || x.follow == 0 {
		return nil, nil
	}
	if len(x.redirects) == x.follow {
		return nil, failed("%s redirects more than %d times", x.first.hostPort, x.follow).
			WithRemedy("look where it leads: follow 0 returns the redirect itself")
	}
	to, err := x.landing(h.target, place)
	if err == nil && to.hostPort != h.target.hostPort { // no value goes on to another host
		to, err = x.landing(h.target, x.lent.Text(place))
	}
	if err != nil {
		return nil, err
	}
	n := hop{target: to, method: method(h.method, answer.StatusCode), header: h.header.Clone(), body: h.body, text: h.text}
	if n.method != h.method {
		n.body = nil
		n.header.Del("Content-Type")
	}
	if to.origin() == h.target.origin() {
		return &n, nil
	}
	if len(n.body) > 0 {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
			"%s redirects the request with its body to %s, which was not meant to have it", h.target.origin(), to.origin()).
			WithRemedy("if it is, send it there: url %s", show.Arg(palyra.Clip(to.url.String(), 300)))
	}
	for name := range n.header {
		if !slices.Contains(said, name) {
			n.header.Del(name)
		}
	}
	return &n, nil
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func method(was string, status int) string {
	switch {
	case was == http.MethodHead:
	case status == http.StatusSeeOther, was == http.MethodPost && (status == http.StatusMovedPermanently || status == http.StatusFound):
		return http.MethodGet
	}
	return was
}

// landing is the target of a redirect, which must be one of the plan.
func (x *exchange) landing(from target, place string) (target, error) {
	shown := show.Arg(palyra.Clip(place, 300))
	if len(place) > maxURL {
		return target{}, failed("%s redirects to an address of %d bytes", from.hostPort, len(place))
	}
	u, err := from.url.Parse(place)
	if err != nil {
		return target{}, failed("%s redirects to %s, which is no address", from.hostPort, shown).WithCause(err)
	}
	u.RawQuery = ascii(u.RawQuery)
	to, err := x.target(u.String())
	if err != nil {
		return target{}, unfollowed(from, shown, err)
	}
	switch {
	case from.url.Scheme == "https" && to.url.Scheme == "http":
		x.deny(to.hostPort)
		return target{}, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s redirects from https to http, to %s", from.hostPort, shown).
			WithRemedy("ask the server's owner; if the address is meant, fetch it itself")
	case !slices.Contains(x.targets, to.hostPort):
		x.deny(to.hostPort)
		return target{}, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s redirects to %s, which the call does not name",
			from.hostPort, to.hostPort).
			WithRemedy("if that is meant, call again with url %s, or name the host in redirect_to", show.Arg(palyra.Clip(to.url.String(), 300)))
	}
	return to, nil
}

// unfollowed is the error of a redirect that cannot be followed. A refusal of the guard passes unchanged.
func unfollowed(from target, shown string, err error) error {
	e := palyra.AsError(err)
	if e.Reason != palyra.ReasonMalformedInput {
		return err
	}
	return failed("%s redirects to %s: %s", from.hostPort, shown, e.Text).
		WithRemedy("look at it yourself: follow 0 returns the redirect").WithCause(err)
}

// deny records a target that was refused without dialling.
func (x *exchange) deny(hostPort string) {
	host, port, err := net.SplitHostPort(hostPort)
	n, perr := strconv.Atoi(port)
	if err == nil && perr == nil {
		x.report(palyra.EgressFlow{Door: "fetch", Host: host, Port: n, Verdict: palyra.FlowDenied})
	}
}
