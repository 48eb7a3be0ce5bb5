package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"palyra/internal/signwire"
)

var errSSH = errors.New("git reaches servers by ssh for clone, fetch and push only; other programs find no ssh here")

// maxSaid is the most that is given at once of what git says; the broker has room for that.
const maxSaid = 32 << 10

// connect stands for ssh where git connects to a server: 'ssh [-o SendEnv=GIT_PROTOCOL] [-4|-6] [-p PORT] [USER@]HOST COMMAND'.
func connect(args []string) error {
	way, err := wayOf(args)
	if err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", signwire.Door, 10*time.Second)
	if err != nil {
		return fmt.Errorf("no key is lent to this call (palyra exec --secret NAME): %w", err)
	}
	defer c.Close()
	text, err := json.Marshal(way)
	if err != nil {
		return err
	}
	if err := signwire.Write(c, signwire.Connect, text); err != nil {
		return err
	}
	return talk(c)
}

// wayOf reads the words by which git calls ssh.
func wayOf(args []string) (w signwire.Way, err error) {
	w.Port = "22"
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-4", args[0] == "-6":
			args = args[1:]
		case len(args) > 1 && args[0] == "-o" && args[1] == "SendEnv=GIT_PROTOCOL":
			args = args[2:]
		case len(args) > 1 && args[0] == "-p":
			w.Port, args = args[1], args[2:]
		default:
			return w, errSSH
		}
	}
	if len(args) != 2 {
		return w, errSSH
	}
	w.Host = args[0]
	if user, host, ok := strings.Cut(args[0], "@"); ok {
		w.User, w.Host = user, host
	}
	w.Host = strings.Trim(w.Host, "[]")
	service, path, ok := strings.Cut(args[1], " ")
	if len(path) < 3 || !ok || path[0] != '\'' || path[len(path)-1] != '\'' {
		return w, errSSH
	}
	w.Service, w.Path = service, path[1:len(path)-1]
	return w, nil
}

// talk has git, which speaks by standard input and output, and the broker speak to each other.
func talk(c net.Conn) error {
	asked := make(chan func() error, 1)
	broken := make(chan error, 1)
	go func() {
		for do := range asked {
			if err := do(); err != nil {
				broken <- err
				_ = c.Close()
				return
			}
		}
	}()
	defer close(asked)
	store := &objects{}
	defer store.close()
	in := bufio.NewReaderSize(os.Stdin, maxSaid)
	for {
		kind, body, err := signwire.Read(c)
		if err != nil {
			select {
			case why := <-broken:
				return why
			default:
				return fmt.Errorf("no answer from Palyra: %w", err)
			}
		}
		switch kind {
		case signwire.Data:
			if _, err := os.Stdout.Write(body); err != nil {
				return err
			}
		case signwire.Text:
			_, _ = os.Stderr.Write(body)
		case signwire.More:
			asked <- func() error { return more(c, in) }
		case signwire.NeedID:
			asked <- func() error { return signwire.Write(c, signwire.Object, store.find(string(body))) }
		case signwire.Refusal:
			return errors.New(string(body))
		case signwire.Done:
			if len(body) != 1 || body[0] == 0 {
				return nil
			}
			os.Exit(int(body[0]))
		default:
			return signwire.ErrFrame
		}
	}
}

// more gives the next of what git says.
func more(c net.Conn, in *bufio.Reader) error {
	piece := make([]byte, maxSaid)
	n, err := in.Read(piece)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return signwire.Write(c, signwire.Data, piece[:n])
}
