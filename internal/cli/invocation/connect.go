package invocation

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/screen"
	"palyra/internal/config"
)

// TokenVariable names the file with a named agent's token. There is no variable
// or flag for the token itself: both are visible to other programs.
const TokenVariable = quick.TokenVariable

// Agent opens the agent's door, where calls are proposed and nothing is decided.
func (inv *Invocation) Agent() (*client.Client, error) {
	if name := inv.RemoteName(); name != "" {
		return inv.connectRemote(name, client.AgentDoor)
	}
	paths, err := inv.Paths()
	if err != nil {
		return nil, err
	}
	token, err := inv.AgentToken()
	if err != nil {
		return nil, err
	}
	find := func() (string, error) {
		socket, _, err := paths.Sockets()
		return socket, err
	}
	return client.Open(client.Config{Find: find, Door: client.AgentDoor, AgentToken: token})
}

// ByHand opens the door for calls that a person types: not as the unnamed agent, whose calls and questions are not
// theirs. In a room, with a token or on another machine only an agent can propose, and it is that agent.
func (inv *Invocation) ByHand() (*client.Client, error) {
	if inv.RemoteName() != "" || inv.TokenFile() != "" || inv.Inside() {
		return inv.Agent()
	}
	return inv.Continuing(nil)
}

// Continuing opens the door for calls that a person types; with an answer, to a call that is on its way and is the first.
func (inv *Invocation) Continuing(answer io.ReadCloser) (*client.Client, error) {
	paths, err := inv.Paths()
	if answer != nil { // it is followed to its end, whatever the configuration says
		paths, err = config.Locate(config.Options{Home: inv.Home, Env: inv.Env})
	}
	if err != nil {
		return nil, err
	}
	find := func() (string, error) {
		_, socket, err := paths.Sockets()
		return socket, err
	}
	return client.Open(client.Config{Find: find, Door: client.AgentDoor, Command: true, Adopted: answer})
}

// Operator opens the operator's door. Its key is read, and its passphrase asked for, only when
// something must be signed.
func (inv *Invocation) Operator() (*client.Client, error) {
	if name := inv.RemoteName(); name != "" {
		return inv.connectRemote(name, client.OperatorDoor)
	}
	paths, err := inv.Paths()
	if err != nil {
		return nil, err
	}
	return inv.OperatorAs(&personalKey{inv: inv, path: paths.OperatorKey})
}

// OperatorAs opens the operator's door with a given key.
func (inv *Invocation) OperatorAs(key client.Signer) (*client.Client, error) {
	if name := inv.RemoteName(); name != "" && key == nil {
		return inv.connectRemote(name, client.OperatorDoor)
	}
	paths, err := inv.Paths()
	if err != nil {
		return nil, err
	}
	find := func() (string, error) {
		_, socket, err := paths.Sockets()
		return socket, err
	}
	return client.Open(client.Config{Find: find, Door: client.OperatorDoor, Signer: key})
}

// MaxToken is the largest token file that is read.
const MaxToken = 4096

// TokenFile is the token file that the environment names, or "".
func (inv *Invocation) TokenFile() (path string) {
	for _, pair := range inv.Env {
		if name, value, _ := strings.Cut(pair, "="); name == TokenVariable {
			path = value
		}
	}
	return path
}

// AgentToken reads the named agent's token, if the environment names a file.
func (inv *Invocation) AgentToken() (palyra.Secret, error) {
	path := inv.TokenFile()
	if path == "" {
		return palyra.Secret{}, nil
	}
	bad := func(why string) error {
		return exit.Failedf(palyra.ReasonBadCredential, "the agent's token in %s: %s", path, why).
			WithRemedy("make the file with `palyra agent add NAME --out FILE`, or unset %s", TokenVariable)
	}
	raw, err := config.ReadPrivate(path, MaxToken)
	if config.Unsafe(err) {
		return palyra.Secret{}, exit.Failedf(palyra.ReasonBadCredential, "the agent's token in %s: the file %v", path, err).
			WithRemedy("make it yours alone: chmod 600 %s; others may have read it, so a new token is better still", path)
	}
	if err != nil {
		return palyra.Secret{}, bad(err.Error())
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return palyra.Secret{}, bad("it is empty")
	}
	return palyra.NewSecret([]byte(token)), nil
}

// ReadInput reads an argument that a person gave as "@file", "-" for stdin, or the text itself.
func (inv *Invocation) ReadInput(arg string, limit int64) ([]byte, error) {
	var r io.Reader
	switch {
	case arg == "-":
		r = inv.Stdin
	case strings.HasPrefix(arg, "@"):
		f, err := os.Open(arg[1:])
		if err != nil {
			return nil, exit.Failedf(palyra.ReasonFileNotFound, "%v", err).WithRemedy("name a file that you can read")
		}
		defer f.Close()
		r = f
	default:
		return []byte(arg), nil
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, exit.Failedf(palyra.ReasonMalformedInput, "cannot read the input: %v", err)
	}
	if int64(len(raw)) > limit {
		return nil, exit.Failedf(palyra.ReasonInputTooLarge, "the input is larger than %s", screen.Size(limit))
	}
	return raw, nil
}

// Body is the body of a command that talks to a daemon.
type Body func(ctx context.Context, c *client.Client, args []string) error

// AsOperator runs f at the operator's door.
func (inv *Invocation) AsOperator(f Body) func(*cobra.Command, []string) error {
	body := withClient(inv.Operator, f)
	return func(cmd *cobra.Command, args []string) error { return inv.notInside(body(cmd, args)) }
}

// notInside explains a missing operator's door inside an agent's room, which has only its own: no
// daemon is to be started there.
func (inv *Invocation) notInside(err error) error {
	if err == nil || palyra.AsError(err).Reason != client.ReasonNoDaemon || !inv.Inside() {
		return err
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
		"an agent has no operator's door: this runs inside a sandbox, where only tools can be called").
		WithRemedy("palyra tools list says which; a person outside can do this").WithCause(err)
}

// Inside reports whether this is the room of an agent: it has the agent's door but not the operator's.
func (inv *Invocation) Inside() bool {
	paths, err := inv.Paths()
	if err != nil {
		return false
	}
	agent, operator, err := paths.Sockets()
	return err == nil && exists(agent) && !exists(operator)
}

// AsAgent runs f at the agent's door.
func (inv *Invocation) AsAgent(f Body) func(*cobra.Command, []string) error {
	return withClient(inv.Agent, f)
}

func withClient(door func() (*client.Client, error), f Body) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := door()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(cmd.Context(), c, args)
	}
}
