package gitssh

import (
	"bufio"
	"context"
	"errors"
	"io"

	"golang.org/x/crypto/ssh"

	"palyra"
	"palyra/internal/gitwire"
	"palyra/internal/signwire"
)

// service starts the service of a repository, and has git and the server speak to each other.
func (c Config) service(ctx context.Context, server *ssh.Client, client *gitClient, r gitwire.Request) error {
	s, err := server.NewSession()
	if err != nil {
		return broken(err)
	}
	defer s.Close()
	in, err := s.StdinPipe()
	if err != nil {
		return broken(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		return broken(err)
	}
	s.Stderr = &speech{to: client, left: maxSpeech}
	if err := s.Start(r.Service + " '" + r.Path + "'"); err != nil {
		return broken(err)
	}
	said := bufio.NewReaderSize(client, 64<<10)
	if r.Service == gitwire.ServicePush {
		if err := c.push(ctx, client, said, in, out, r); err != nil {
			return err
		}
	}
	return client.relay(s, said, in, out)
}

func broken(err error) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "the server ended the connection").
		WithRemedy("see that the repository is there, and try again").WithCause(err)
}

// push lets the server say what it has, and sends on what git wants of it once that was asked about.
func (c Config) push(ctx context.Context, client *gitClient, said io.Reader, in io.Writer, out io.Reader, r gitwire.Request) error {
	raw, refs, err := gitwire.ReadRefs(out)
	if err != nil {
		return broken(err)
	}
	for rest := raw; len(rest) > 0; {
		n := min(len(rest), 1<<20)
		if err := client.write(signwire.Data, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	raw, r.Updates, err = gitwire.ReadUpdates(said, refs)
	if err != nil {
		if !errors.Is(err, gitwire.ErrWire) {
			return err
		}
		c.Refused(ctx, "a push that cannot be read")
		return refused("the push is not sent: %s", err.Error()).WithRemedy("push branches and tags, without options for the server")
	}
	if len(r.Updates) > 0 {
		gitwire.Look(ctx, r.Updates, client.object)
		if err := client.duringAnswer(ctx, func(ctx context.Context) error { return c.Ask(ctx, r) }); err != nil {
			return err
		}
	}
	_, err = in.Write(raw)
	return err
}
