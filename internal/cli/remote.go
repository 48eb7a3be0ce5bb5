package cli

import (
	"strings"

	"palyra"
	"palyra/client"
	"palyra/internal/show"
)

// remoteVariable names the daemon to talk to, as --remote does.
const remoteVariable = "PALYRA_REMOTE"

// remoteName is the daemon on another machine that the person named, or "".
func (a *app) remoteName() string {
	if a.remote != "" {
		return a.remote
	}
	for _, pair := range a.Env {
		if name, value, _ := strings.Cut(pair, "="); name == remoteVariable {
			return value
		}
	}
	return ""
}

// elsewhere opens a door of the daemon on another machine. The device's own key
// signs there.
func (a *app) elsewhere(name string, door client.Door) (*client.Client, error) {
	c, err := a.config()
	if err != nil {
		return nil, err
	}
	r, err := client.LoadRemote(c.Paths.Remotes, name)
	if err != nil {
		return nil, err
	}
	conf := client.Config{Remote: r, Door: door}
	if door == client.OperatorDoor {
		conf.Signer = r.Signer()
	} else if conf.AgentToken, err = a.agentToken(); err != nil {
		return nil, err
	}
	there, err := client.Open(conf)
	if err != nil {
		return nil, err
	}
	a.renewInTime(there, r)
	return there, nil
}

// renewInTime renews the device's certificate after two thirds of its life. That
// it could not be is told and no reason to stop: there is a third left.
func (a *app) renewInTime(c *client.Client, r *client.Remote) {
	ends, due := r.Expires()
	now := a.Now()
	if now.Before(due) || !now.Before(ends) {
		return
	}
	if _, err := c.Renew(a.ctx); err != nil {
		a.say("palyra: the certificate for %s ends %s and could not be renewed: %s", show.Line(r.Name), stamp(ends), show.Line(palyra.AsError(err).Text))
	}
}

// here refuses a command that is about this machine when another one is named.
func (a *app) here(what string) error {
	if name := a.remoteName(); name != "" {
		return usage("%s is about this machine; leave --remote %s (or %s) out", what, name, remoteVariable)
	}
	return nil
}
