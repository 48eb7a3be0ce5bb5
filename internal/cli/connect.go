package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/config"
	"palyra/internal/show"
)

// tokenVariable names the file with a named agent's token. There is no variable
// or flag for the token itself: both are visible to other programs.
const tokenVariable = "PALYRA_AGENT_TOKEN_FILE"

// agent opens the agent's door, where a call is proposed and nothing decided.
func (a *app) agent() (*client.Client, error) {
	if name := a.remoteName(); name != "" {
		return a.elsewhere(name, client.AgentDoor)
	}
	paths, err := a.paths()
	if err != nil {
		return nil, err
	}
	token, err := a.agentToken()
	if err != nil {
		return nil, err
	}
	find := func() (string, error) {
		socket, _, err := paths.Sockets()
		return socket, err
	}
	return client.Open(client.Config{Find: find, Door: client.AgentDoor, AgentToken: token})
}

// byHand opens the door at which what a person types proposes calls: not as an agent
// that nobody named, whose calls and questions are others' than theirs. Where only an
// agent can be, in a room, with a token or elsewhere, it is that agent.
func (a *app) byHand() (*client.Client, error) {
	if a.remoteName() != "" || a.tokenFile() != "" || a.inside() {
		return a.agent()
	}
	paths, err := a.paths()
	if err != nil {
		return nil, err
	}
	find := func() (string, error) {
		_, socket, err := paths.Sockets()
		return socket, err
	}
	return client.Open(client.Config{Find: find, Door: client.AgentDoor, Command: true})
}

// operator opens the operator's door. Its key is read, and its passphrase asked
// for, only when something must be signed.
func (a *app) operator() (*client.Client, error) {
	if name := a.remoteName(); name != "" {
		return a.elsewhere(name, client.OperatorDoor)
	}
	paths, err := a.paths()
	if err != nil {
		return nil, err
	}
	return a.operatorAs(&personalKey{app: a, path: paths.OperatorKey})
}

// operatorAs opens the operator's door with a given key.
func (a *app) operatorAs(key client.Signer) (*client.Client, error) {
	if name := a.remoteName(); name != "" && key == nil {
		return a.elsewhere(name, client.OperatorDoor)
	}
	paths, err := a.paths()
	if err != nil {
		return nil, err
	}
	find := func() (string, error) {
		_, socket, err := paths.Sockets()
		return socket, err
	}
	return client.Open(client.Config{Find: find, Door: client.OperatorDoor, Signer: key})
}

// personalKey is the operator's key file, opened at first use.
type personalKey struct {
	*app // the command, which it does not outlive
	path string

	once   sync.Once
	asked  bool // a passphrase was typed
	signer *client.OperatorKey
	err    error
}

// KeyID implements client.Signer. Without a key it is empty and Sign says why.
func (k *personalKey) KeyID() string {
	if s, err := k.open(); err == nil {
		return s.KeyID()
	}
	return ""
}

// maxTries is how often a passphrase, or an answer, is asked for.
const maxTries = 3

// Sign implements client.Signer. A wrong passphrase is asked for again.
func (k *personalKey) Sign(i palyra.Intent) (string, error) {
	s, err := k.open()
	if err != nil {
		return "", err
	}
	if s.Separation() == palyra.SeparationPassphrase {
		defer hush()()
	}
	for try := 1; ; try++ {
		sig, err := s.Sign(i)
		if err == nil || !k.asked || try == maxTries || palyra.AsError(err).Reason != palyra.ReasonBadCredential {
			return sig, err
		}
		fmt.Fprintf(k.Stderr, "palyra: the passphrase is wrong; %d of %d tries are left%s", maxTries-try, maxTries, k.lineEnd())
	}
}

// lineEnd ends a line on a terminal that is silent, where a line feed is no more than that.
func (a *app) lineEnd() string {
	if isTerminal(a.Stderr) {
		return "\r\n"
	}
	return "\n"
}

func (k *personalKey) open() (*client.OperatorKey, error) {
	k.once.Do(func() {
		k.signer, k.err = client.LoadSigner(k.path, func() (palyra.Secret, error) {
			pass, err := k.secret(k.ctx, "Passphrase of the operator key "+show.Line(k.path)+": ")
			if k.asked = err == nil; err != nil && k.ctx.Err() == nil && palyra.AsError(err).Reason == palyra.ReasonUnsupported {
				err = failed(palyra.ReasonUnsupported, "this needs your signature, the operator key %s is behind a passphrase, and there is no terminal to ask on", k.path).
					WithRemedy("run it from a terminal; the passphrase is taken from nowhere else").WithCause(err)
			}
			return pass, err
		})
	})
	return k.signer, k.err
}

// separation is that of the person's own key; "" when there is none.
func (a *app) separation() palyra.Separation {
	if a.remoteName() != "" {
		return palyra.SeparationDevice
	}
	paths, err := a.paths()
	if err != nil {
		return ""
	}
	s, err := client.LoadSigner(paths.OperatorKey, nil)
	if err != nil {
		return ""
	}
	defer s.Close()
	return s.Separation()
}

// maxToken is the largest token file that is read.
const maxToken = 4096

// tokenFile is the file with a token that the environment names, or "".
func (a *app) tokenFile() (path string) {
	for _, pair := range a.Env {
		if name, value, _ := strings.Cut(pair, "="); name == tokenVariable {
			path = value
		}
	}
	return path
}

// agentToken reads the named agent's token, if the environment names a file.
func (a *app) agentToken() (palyra.Secret, error) {
	path := a.tokenFile()
	if path == "" {
		return palyra.Secret{}, nil
	}
	bad := func(why string) error {
		return failed(palyra.ReasonBadCredential, "the agent's token in %s: %s", path, why).
			WithRemedy("make the file with `palyra agent add NAME --out FILE`, or unset %s", tokenVariable)
	}
	raw, err := config.ReadPrivate(path, maxToken)
	if config.Unsafe(err) {
		return palyra.Secret{}, failed(palyra.ReasonBadCredential, "the agent's token in %s: the file %v", path, err).
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

// readInput reads what a person gave as "@file", "-" for stdin, or the text
// itself.
func (a *app) readInput(arg string, limit int64) ([]byte, error) {
	var r io.Reader
	switch {
	case arg == "-":
		r = a.Stdin
	case strings.HasPrefix(arg, "@"):
		f, err := os.Open(arg[1:])
		if err != nil {
			return nil, failed(palyra.ReasonFileNotFound, "%v", err).WithRemedy("name a file that you can read")
		}
		defer f.Close()
		r = f
	default:
		return []byte(arg), nil
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, failed(palyra.ReasonMalformedInput, "cannot read the input: %v", err)
	}
	if int64(len(raw)) > limit {
		return nil, failed(palyra.ReasonInputTooLarge, "the input is larger than %s", screen.Size(limit))
	}
	return raw, nil
}

// run is the body of a command that talks to a daemon.
type run func(ctx context.Context, c *client.Client, args []string) error

// asOperator runs f at the operator's door.
func (a *app) asOperator(f run) func(*cobra.Command, []string) error {
	body := at(a.operator, f)
	return func(cmd *cobra.Command, args []string) error { return a.notInside(body(cmd, args)) }
}

// notInside says it where the operator's door is missing because this is the room
// of an agent, which has only its own: no daemon is to be started there.
func (a *app) notInside(err error) error {
	if err == nil || palyra.AsError(err).Reason != client.ReasonNoDaemon || !a.inside() {
		return err
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "an agent has no operator's door: this runs inside a sandbox, where only tools can be called").
		WithRemedy("palyra tools list says which; a person outside can do this").WithCause(err)
}

// inside reports whether this is the room of an agent: there is its door and not
// the operator's.
func (a *app) inside() bool {
	paths, err := a.paths()
	if err != nil {
		return false
	}
	agent, operator, err := paths.Sockets()
	return err == nil && exists(agent) && !exists(operator)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// asAgent runs f at the agent's door.
func (a *app) asAgent(f run) func(*cobra.Command, []string) error { return at(a.agent, f) }

func at(door func() (*client.Client, error), f run) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := door()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(cmd.Context(), c, args)
	}
}
