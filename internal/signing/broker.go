package signing

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/gitobject"
	"palyra/internal/gitwire"
	"palyra/internal/signing/gitssh"
	"palyra/internal/signing/sshagent"
	"palyra/internal/signwire"
	"palyra/secrets"
)

// Config is what brokers stand on. All fields are required.
type Config struct {
	// Record puts an event on record.
	Record func(context.Context, palyra.Event) error
	// Refused is told that a run asked for a signature that it does not get, and how often; why is the same for equal reasons.
	Refused func(ctx context.Context, c *palyra.Call, why string, count int64)
	Ask     Ask
	AskGit  AskGit
	// Lend lends the key of a binding to the run again; an error says why the run may not have it any more.
	Lend func(ctx context.Context, binding string) ([]secrets.Loan, error)
	// Dial connects to a host and port for a key's login, by the guard.
	Dial func(ctx context.Context, c *palyra.Call, at string) (net.Conn, error)
}

// Ask puts a signature to the gate, as a call of the tool palyra.sign, and returns the grant of a yes.
type Ask func(ctx context.Context, c *palyra.Call, r gitobject.SignRequest) (palyra.GrantID, error)

// AskGit puts a connection of git to the gate, as a call of the tool palyra.git.remote. An error is a no.
type AskGit func(ctx context.Context, c *palyra.Call, r gitwire.Request) error

// Where programs of a room find their ssh-agent, and the one that brings commits and tags here.
const (
	agentSocket = cell.RoomPalyra + "/ssh/agent.sock"
	signProgram = cell.RoomPalyra + "/bin/palyra-sign"
)

// Broker signs for one run.
type Broker struct {
	Config
	call  *palyra.Call
	ctx   context.Context   // of the run
	lent  map[string]string // the promises of bindings, by their names, as the run was given them
	agent *sshagent.Server
	desk  *desk // signs commits and tags, and connects git; nil: no key does

	mu      sync.Mutex
	refused map[string]int64
}

// maxReasons is how many different refusals of a run are told by themselves.
const maxReasons = 32

// Open opens the keys of loans for a run. It destroys their values: the keys are held here.
func Open(ctx context.Context, c Config, call *palyra.Call, loans []secrets.Loan) (*Broker, error) {
	b := &Broker{Config: c, call: call, ctx: context.WithoutCancel(ctx), lent: map[string]string{}, refused: map[string]int64{}}
	defer func() {
		for _, l := range loans {
			l.Value.Destroy()
		}
	}()
	var pinned []sshagent.PinnedKey
	for _, l := range loans {
		k, err := bound(ctx, l)
		if err != nil {
			return nil, err
		}
		b.lent[l.Name] = l.Promise()
		if l.Kind != secrets.SSHAgent && b.desk == nil {
			b.desk = newDesk(b)
		}
		switch l.Kind {
		case secrets.Signing:
			if b.desk.binding.Name != "" {
				return nil, errors.New("signing: two keys that sign commits")
			}
			b.desk.binding, b.desk.key = l.Binding, k
			continue
		case secrets.GitSSH:
			b.desk.git = append(b.desk.git, gitssh.PinnedKey{Binding: l.Name, Key: k.ssh, Hosts: l.Hosts, HostKeys: l.HostKeys, User: l.User})
			continue
		}
		pinned = append(pinned, sshagent.PinnedKey{Binding: l.Name, Key: k.ssh, HostKeys: l.HostKeys, User: l.User})
	}
	if len(pinned) > 0 {
		var err error
		if b.agent, err = sshagent.New(sshagent.Config{Keys: pinned, Signed: b.loggedIn, Refused: b.refuse}); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// loggedIn puts a login by ssh on record.
func (b *Broker) loggedIn(ctx context.Context, u sshagent.Use) error {
	if _, err := b.still(ctx, u.Binding); err != nil {
		return err
	}
	return b.Record(ctx, palyra.SignatureMade{
		Call: b.call.ID, Binding: u.Binding, Type: "ssh_login", Key: u.Key, Payload: string(u.Digest), Algorithm: u.Algorithm, HostKey: u.HostKey,
		User: palyra.Clip(u.User, 128),
	})
}

// refuse tells the first refusal of each kind; Close tells how many there were.
func (b *Broker) refuse(_ context.Context, why string) {
	b.mu.Lock()
	if len(b.refused) >= maxReasons && b.refused[why] == 0 {
		why = "other requests"
	}
	b.refused[why]++
	first := b.refused[why] == 1
	b.mu.Unlock()
	if first {
		b.Refused(b.ctx, b.call, why, 1)
	}
}

// Doors lists the sockets that the broker answers at, in the room. Equal bindings have equal doors.
func (b *Broker) Doors() (doors []cell.Listener) {
	if b.agent != nil {
		doors = append(doors, cell.Listener{Path: agentSocket})
	}
	if b.desk != nil {
		doors = append(doors, cell.Listener{Addr: netip.MustParseAddrPort(signwire.Door)})
	}
	return doors
}

// Env returns the variables by which programs find them.
func (b *Broker) Env() (env []string) {
	if b.agent != nil {
		env = append(env, "SSH_AUTH_SOCK="+agentSocket)
	}
	return env
}

// Git returns settings of git that have it ask for signatures here, and connect by us.
func (b *Broker) Git() (list [][2]string) {
	if b.desk == nil {
		return nil
	}
	if len(b.desk.git) > 0 {
		list = append(list, [2]string{"core.sshCommand", signProgram + " ssh"}, [2]string{"ssh.variant", "ssh"})
	}
	switch {
	case b.desk.binding.Name == "":
	case b.desk.key.format() == signwire.FormatOpenPGP:
		list = append(list, [][2]string{
			{"gpg.format", "openpgp"},
			{"gpg.program", signProgram},
			{"gpg.openpgp.program", signProgram},
			{"user.signingkey", b.desk.key.name()},
		}...)
	default:
		list = append(list, [][2]string{
			{"gpg.format", "ssh"}, {"gpg.ssh.program", signProgram}, {"user.signingkey", "key::" + b.desk.key.name()},
		}...)
	}
	return list
}

// Serve takes over the sockets of Doors, in their order. It does not block, and closes the files in every case.
func (b *Broker) Serve(sockets []*os.File) error {
	defer func() {
		for _, f := range sockets {
			_ = f.Close()
		}
	}()
	if len(sockets) != len(b.Doors()) {
		return errors.New("signing: serve: not one socket for each door")
	}
	for i, f := range sockets {
		l, err := net.FileListener(f)
		if err != nil {
			return err
		}
		if i == 0 && b.agent != nil {
			b.agent.Serve(l)
		} else {
			b.desk.serve(l)
		}
	}
	return nil
}

// Close ends every connection: nothing is signed any more. It can be called again.
func (b *Broker) Close() {
	if b.agent != nil {
		b.agent.Close()
	}
	if b.desk != nil {
		b.desk.close()
	}
	b.mu.Lock()
	again := b.refused
	b.refused = map[string]int64{}
	b.mu.Unlock()
	for why, n := range again {
		if n > 1 {
			b.Refused(b.ctx, b.call, why, n)
		}
	}
}
