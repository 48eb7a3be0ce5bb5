package process

import (
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/show"
)

const maxHosts = 96 // of a call and its profile together

// egress returns the hosts that a run may reach: the call's, those that its command names, and the
// profile's. A host of the profile that the configuration does not allow is left out and noted, so
// that a profile can be used without a network.
func (d *Driver) egress(a arguments, room Fittings, p *palyra.Plan) ([]string, error) {
	if len(a.Egress) > maxEgress {
		return nil, malformed("%d hosts are too many", len(a.Egress)).WithRemedy("give at most %d", maxEgress)
	}
	hosts, err := d.hosts(a.Egress)
	if err != nil {
		return nil, err
	}
	if a.Egress == nil { // a call's own list counts alone, even an empty one
		hosts = d.named(p)
	}
	for _, h := range room.Egress {
		got, err := d.hosts([]string{h})
		switch {
		case err == nil:
			hosts = append(hosts, got...)
		case palyra.AsError(err).Reason == palyra.ReasonEgressDenied:
			note(p, "the profile would reach %s, which this system does not allow", show.Line(palyra.Clip(h, 128)))
		default:
			return nil, badProfile(room, "its host %s cannot be used: %s", show.Arg(palyra.Clip(h, 128)), palyra.AsError(err).Text).WithCause(err)
		}
	}
	slices.Sort(hosts)
	if hosts = slices.Compact(hosts); len(hosts) > maxHosts {
		return nil, badProfile(room, "%d hosts are too many", len(hosts))
	}
	return hosts, nil
}

// named returns the hosts that the command names. They are in the plan like those that the call
// asks for: people see them, and a grant covers them. A host that the configuration does not allow
// is left out: the guard refuses it when the program connects.
func (d *Driver) named(p *palyra.Plan) (hosts []string) {
	if d.Named == nil || p.Enforcement.Mode != palyra.NetworkStrict {
		return nil
	}
	for _, h := range d.Named(p.Argv) {
		if got, err := d.hosts([]string{h}); err == nil {
			hosts = append(hosts, got...)
		}
	}
	return hosts
}

// hosts checks entries and returns them in their one form.
func (d *Driver) hosts(entries []string) ([]string, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	if d.Hosts != nil {
		got, err := d.Hosts.Check(slices.Clone(entries))
		return slices.Clone(got), err
	}
	for _, e := range entries {
		host, port, ok := strings.Cut(e, ":")
		n, err := strconv.ParseUint(port, 10, 16)
		if !ok || err != nil || n == 0 || strconv.FormatUint(n, 10) != port || !hostName(host) {
			return nil, malformed("%s is not host:port", show.Arg(palyra.Clip(e, 128))).
				WithRemedy("give a lower-case host name and a port, for example example.org:443")
		}
	}
	return slices.Clone(entries), nil
}

func hostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}
