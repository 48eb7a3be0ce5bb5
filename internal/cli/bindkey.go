package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/show"
	"palyra/secrets"
)

// maxHostKeyFile is the largest file of host keys that is read.
const maxHostKeyFile = 64 << 10

// keyFlags are the flags of vault bind for private keys.
type keyFlags struct {
	ssh, git, sign bool
	hostKeys       []string // files
	agent, gpg     string
	key            string
}

func (f *keyFlags) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.ssh, "ssh", false, "a private key of ssh, which logs in at these hosts")
	fs.BoolVar(&f.git, "git-ssh", false, "a private key of ssh, with which Palyra connects git to these hosts: each push is shown first")
	fs.BoolVar(&f.sign, "sign", false, "a private key of ssh or OpenPGP, which signs commits and tags")
	fs.StringArrayVar(&f.hostKeys, "host-key", nil,
		"for --ssh and --git-ssh: a file with the host's public keys or lines of known_hosts (- for standard input); may be given again")
	fs.StringVar(&f.agent, "ssh-agent", "", "the socket of the ssh-agent that has the key, instead of the vault")
	fs.StringVar(&f.gpg, "gpg-agent", "", "for --sign: the socket of the gpg-agent that has the key, instead of the vault "+
		"(gpgconf --list-dirs agent-socket)")
	fs.StringVar(&f.key, "key", "", "for --ssh-agent: which of its keys, as SHA256:FINGERPRINT or the public key; for --gpg-agent\n"+
		"a file with the public key (gpg --armor --export-options export-minimal --export KEY)")
}

// port is that of a host that was given without one.
func (f *keyFlags) port() string {
	if f.ssh || f.git {
		return ":22"
	}
	return ":443"
}

// fill writes the flags into a binding.
func (f *keyFlags) fill(inv *invocation.Invocation, secret string, b *secrets.Binding) error {
	if !b.Kind.Keys() && (len(f.hostKeys) > 0 || f.agent+f.gpg != "" || f.key != "") {
		return exit.Usagef("--host-key, --ssh-agent, --gpg-agent and --key go with --ssh, --git-ssh or --sign")
	}
	if f.gpg != "" {
		if f.agent != "" || !f.sign || f.key == "" {
			return exit.Usagef("--gpg-agent goes with --sign, and with --key FILE: the public key (gpg --armor --export KEY)")
		}
		text, err := hostKeyFile(inv, f.key)
		if err != nil {
			return err
		}
		f.agent, f.key = f.gpg, text
	}
	switch {
	case f.agent == "":
	case secret != "":
		return exit.Usagef("the key is a secret of the vault (--secret) or in an ssh-agent (--ssh-agent), not both")
	case f.key == "":
		return exit.Usagef("say which key of the ssh-agent it is: --key SHA256:FINGERPRINT ('ssh-add -l' lists them)")
	default:
		abs, err := filepath.Abs(f.agent)
		if err != nil {
			return err
		}
		b.Agent = abs
	}
	if (f.ssh || f.git) && len(f.hostKeys) == 0 {
		return exit.Usagef("say by which keys the host is known: --host-key FILE, with what 'ssh-keyscan HOST' prints, once it is compared")
	}
	b.Key = f.key
	for _, name := range f.hostKeys {
		text, err := hostKeyFile(inv, name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				b.HostKeys = append(b.HostKeys, line)
			}
		}
	}
	return nil
}

func hostKeyFile(inv *invocation.Invocation, name string) (string, error) {
	var from io.Reader = inv.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", exit.Usagef("%v", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxHostKeyFile+1))
	if err == nil && len(text) > maxHostKeyFile {
		err = exit.Usagef("%s has more than %d bytes", show.Line(name), maxHostKeyFile)
	}
	return string(text), err
}

// keyText says what the binding of a key does.
func keyText(b secrets.Binding) string {
	from := "the secret " + show.Line(b.Secret)
	if b.Agent != "" {
		from = "the ssh-agent at " + show.Line(b.Agent)
		if b.PublicKey != "" {
			from = "the gpg-agent at " + show.Line(b.Agent)
		}
	}
	if b.Kind == secrets.Signing {
		return "the key " + secrets.Fingerprint(b.Key) + " (" + from + ") signs commits and tags, each of which is shown first"
	}
	as := ""
	if b.User != "" {
		as = " as " + show.Line(b.User)
	}
	does := " logs in by ssh" + as + " at "
	if b.Kind == secrets.GitSSH {
		does = " connects git by ssh" + as + ", and each push is shown first, at "
	}
	var hosts []string
	for _, k := range b.HostKeys {
		hosts = append(hosts, secrets.Fingerprint(k))
	}
	return "the key " + secrets.Fingerprint(b.Key) + " (" + from + ")" + does + show.Line(strings.Join(b.Hosts, ", ")) +
		", known by " + strings.Join(hosts, ", ")
}
