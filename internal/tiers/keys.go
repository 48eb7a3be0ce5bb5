package tiers

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/egress"
	"palyra/internal/gitobject"
	"palyra/internal/gitwire"
	"palyra/internal/signing"
	"palyra/internal/tool/process"
	"palyra/secrets"
)

// keyRoom is what a room gets for keys, as the tool that plans knows it.
func keyRoom(list []secrets.Binding) (process.Fittings, error) {
	r, err := signing.RoomFor(list, cell.RoomHome, programBeside("palyra-sign"))
	return process.Fittings{Files: r.Files, Mounts: r.Mounts, UnixSockets: r.Unix}, err
}

// signs has a broker sign for the run, and returns the loans that are no keys.
func (g *gateway) signs(ctx context.Context, conf signing.Config, c *palyra.Call, loans []secrets.Loan) ([]secrets.Loan, error) {
	var keys, others []secrets.Loan
	for _, l := range loans {
		if l.Kind.Keys() {
			keys = append(keys, l)
		} else {
			others = append(others, l)
		}
	}
	if len(keys) == 0 {
		return others, nil
	}
	broker, err := signing.Open(ctx, conf, c, keys)
	if err != nil {
		for _, l := range others {
			l.Value.Destroy()
		}
		return nil, err
	}
	g.broker = broker
	return others, nil
}

// Doors implements sandbox.Gateway: the guard's, and then the broker's.
func (g gateway) Doors() []cell.Listener {
	if g.broker == nil {
		return g.Session.Doors()
	}
	return slices.Concat(g.Session.Doors(), g.broker.Doors())
}

// Serve implements sandbox.Gateway.
func (g gateway) Serve(sockets []*os.File) error {
	if g.broker == nil {
		return g.Session.Serve(sockets)
	}
	of := len(sockets) - len(g.broker.Doors())
	if of < 0 {
		return g.Session.Serve(sockets) // which refuses, and closes them
	}
	if err := g.broker.Serve(sockets[of:]); err != nil {
		for _, f := range sockets[:of] {
			_ = f.Close()
		}
		return err
	}
	return g.Session.Serve(sockets[:of])
}

// Env implements sandbox.Gateway. Both may have settings for git, which are counted.
func (g gateway) Env() []string {
	env := g.Session.Env()
	if g.broker == nil {
		return env
	}
	const counted = "GIT_CONFIG_COUNT="
	n := 0
	if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, counted) }); i >= 0 {
		n, _ = strconv.Atoi(strings.TrimPrefix(env[i], counted))
		env = slices.Delete(slices.Clone(env), i, i+1)
	}
	env = slices.Concat(env, g.broker.Env())
	for _, s := range g.broker.Git() {
		env = append(env, "GIT_CONFIG_KEY_"+strconv.Itoa(n)+"="+s[0], "GIT_CONFIG_VALUE_"+strconv.Itoa(n)+"="+s[1])
		n++
	}
	if n > 0 {
		env = append(env, counted+strconv.Itoa(n))
	}
	return env
}

// Close implements sandbox.Gateway.
func (g gateway) Close() ([]palyra.EgressFlow, int64) {
	if g.broker != nil {
		g.broker.Close()
	}
	flows, more := g.Session.Close()
	g.uses.record(context.Background()) // what was used
	return flows, more
}

// signatureRefused puts on record that a program asked a key for something that it does not sign.
func (t *Tiers) signatureRefused(ctx context.Context, c *palyra.Call, why string, count int64) {
	t.changedMeanwhile(ctx, c, palyra.ReasonSignatureRefused, []string{why}, count-1)
}

// askSignature has a running call ask for the signature of a commit or tag.
func (t *Tiers) askSignature(ctx context.Context, c *palyra.Call, r gitobject.SignRequest) (palyra.GrantID, error) {
	args, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	a, err := t.Calls().Ask(ctx, c, palyra.ToolSign, args, cmp.Or(c.Detail.Summary, string(c.Proposal.Tool)))
	return a.Grant, err
}

// askGit has a running call ask whether git may be connected to a repository, or push to it.
func (t *Tiers) askGit(ctx context.Context, c *palyra.Call, r gitwire.Request) error {
	args, err := json.Marshal(r)
	if err == nil {
		_, err = t.Calls().Ask(ctx, c, palyra.ToolGitRemote, args, cmp.Or(c.Detail.Summary, string(c.Proposal.Tool)))
	}
	return err
}

// dialForGit connects to a server for a login, by the guard. What was reached is told with the run's own flows.
func (t *Tiers) dialForGit(ctx context.Context, _ *palyra.Call, at string) (net.Conn, error) {
	s, err := t.Guard.Open(ctx, nil, palyra.Plan{Egress: []string{at}})
	if err != nil {
		return nil, err
	}
	c, err := s.DialContext(ctx, "tcp", at)
	if err != nil {
		s.Close()
		return nil, err
	}
	return guarded{c, s}, nil
}

// guarded is a connection with the session of the guard that it is alone in.
type guarded struct {
	net.Conn
	of *egress.Session
}

// Close implements net.Conn.
func (g guarded) Close() error {
	err := g.Conn.Close()
	g.of.Close()
	return err
}

// signing is what brokers of runs stand on.
func (t *Tiers) signing() signing.Config {
	return signing.Config{
		Record: func(ctx context.Context, e palyra.Event) error {
			_, err := t.Journal.Record(ctx, e)
			return err
		},
		Refused: t.signatureRefused, Ask: t.askSignature, AskGit: t.askGit, Dial: t.dialForGit,
	}
}
