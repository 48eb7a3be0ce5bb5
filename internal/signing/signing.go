// Package signing has keys sign for programs in rooms that never see them: logins by ssh to servers whose host keys are
// pinned, and commits and tags that were shown first.
//
// Words: a broker is what signs for one run. It answers at doors of the run's room: an ssh-agent (package sshagent), and
// the one to which palyra-sign brings commits and tags, and where git is connected to servers (packages signwire, gitssh).
//
// Promises: no private key enters a room. Every signature is on record before it is given away, and what a key is not
// bound to is refused and told. A key that is another one than its binding's signs nothing.
//
// Its words are those of docs/words.md.
package signing

import (
	"context"
	"strings"
	"time"

	"palyra"
	"palyra/internal/signing/openpgp"
	"palyra/internal/signing/sshkey"
	"palyra/internal/signwire"
	"palyra/secrets"
)

// Inspect completes the binding of a key: which key it is, and its host keys in their one spelling. value is empty where
// an agent has the key.
func Inspect(ctx context.Context, b secrets.Binding, value palyra.Secret) (secrets.Binding, error) {
	k, err := open(ctx, b, value)
	if err != nil {
		return b, err
	}
	b.Key, b.PublicKey = k.name(), publicOf(b)
	if b.Kind == secrets.SSHAgent || b.Kind == secrets.GitSSH {
		b.HostKeys, err = sshkey.HostKeys(b.HostKeys, b.Hosts)
	}
	return b, err
}

// key signs: one of the two.
type key struct {
	ssh *sshkey.Key
	pgp *openpgp.Key
}

// name is the key in its binding.
func (k key) name() string {
	if k.pgp != nil {
		return k.pgp.Fingerprint()
	}
	return sshkey.Line(k.ssh.Public())
}

// format is that of its signatures.
func (k key) format() string {
	if k.pgp != nil {
		return signwire.FormatOpenPGP
	}
	return signwire.FormatSSH
}

// called reports whether a program that asks for a signature means this key.
func (k key) called(name string) bool {
	if k.pgp != nil {
		name = strings.ToUpper(strings.TrimSuffix(strings.TrimPrefix(name, "0x"), "!"))
		return len(name) >= 16 && strings.HasSuffix(k.name(), name)
	}
	words := strings.Fields(name)
	return len(words) >= 2 && words[0]+" "+words[1] == k.name()
}

// sign signs a text.
func (k key) sign(ctx context.Context, text []byte) ([]byte, error) {
	if k.pgp != nil {
		return k.pgp.SignText(ctx, text, time.Now())
	}
	return k.ssh.SignText(ctx, text)
}

// publicOf is the public half of a key of OpenPGP that a gpg-agent has; "": it is another one.
func publicOf(b secrets.Binding) string {
	switch {
	case b.Agent == "" || b.Kind != secrets.Signing:
		return ""
	case openpgp.Public(b.Key): // as it is bound
		return b.Key
	}
	return b.PublicKey
}

// open opens the key of a binding.
func open(ctx context.Context, b secrets.Binding, value palyra.Secret) (k key, err error) {
	if text := publicOf(b); text != "" {
		k.pgp, err = openpgp.InAgent(ctx, b.Agent, text, time.Now())
		return k, err
	}
	if b.Agent != "" {
		k.ssh, err = sshkey.InAgent(ctx, b.Agent, b.Key)
		return k, err
	}
	err = value.Use(func(text []byte) (err error) {
		if b.Kind == secrets.Signing && openpgp.Armored(text) {
			k.pgp, err = openpgp.Parse(text, time.Now())
			return err
		}
		k.ssh, err = sshkey.Parse(text)
		return err
	})
	return k, err
}

// bound opens the key of a loan, which must still be the binding's.
func bound(ctx context.Context, l secrets.Loan) (key, error) {
	k, err := open(ctx, l.Binding, l.Value)
	if err != nil {
		return k, err
	}
	if k.name() != l.Key {
		return key{}, palyra.Errorf(palyra.Conflict, secrets.ReasonOtherKey, "the secret %s has another key than the one that was bound",
			palyra.Clip(l.Subject(), 128)).
			WithRemedy("have an operator look at it and bind it again: palyra vault bind %s", palyra.Clip(l.Name, 128))
	}
	return k, nil
}

// KeyRoom is what a room gets for keys that are lent to its programs.
type KeyRoom struct {
	Files  []palyra.RoomFile
	Mounts []palyra.Mount
	Unix   bool // its programs connect to a socket by a path
}

// RoomFor returns it. home is the home of the room's programs; program is palyra-sign, where that is.
func RoomFor(list []secrets.Binding, home, program string) (r KeyRoom, err error) {
	var config, known strings.Builder
	signs := 0
	for _, b := range list {
		if b.Kind == secrets.Signing {
			signs++
		}
		if b.Kind.Asks() {
			r.Mounts = []palyra.Mount{{Source: program, Target: signProgram}}
			continue
		}
		r.Unix = true
		known.WriteString(sshkey.Known(b.Hosts, b.HostKeys))
		config.WriteString(userOf(b))
	}
	switch {
	case signs > 1:
		return r, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a call gets one key that signs commits and tags").
			WithRemedy("name one such binding")
	case len(r.Mounts) > 0 && program == "":
		return r, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "the program palyra-sign does not lie beside the daemon").
			WithRemedy("install it there: 'make build' makes it")
	}
	if r.Unix {
		config.WriteString("Host *\n\tUserKnownHostsFile " + home + "/.ssh/known_hosts\n\tGlobalKnownHostsFile /dev/null\n" +
			"\tStrictHostKeyChecking yes\n\tUpdateHostKeys no\n\tForwardAgent no\n\tBatchMode yes\n")
		r.Files = append(r.Files, palyra.RoomFile{Target: home + "/.ssh/config", Text: config.String()},
			palyra.RoomFile{Target: home + "/.ssh/known_hosts", Text: known.String()})
	}
	return r, nil
}

// userOf has ssh log in as the user of a binding.
func userOf(b secrets.Binding) string {
	if b.User == "" {
		return ""
	}
	var hosts []string
	for _, at := range b.Hosts {
		if i := strings.LastIndexByte(at, ':'); i > 0 {
			hosts = append(hosts, strings.Trim(at[:i], "[]"))
		}
	}
	return "Host " + strings.Join(hosts, " ") + "\n\tUser " + b.User + "\n"
}
