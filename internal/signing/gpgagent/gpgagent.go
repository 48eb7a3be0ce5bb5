// Package gpgagent asks a person's gpg-agent for signatures, in its language (assuan): which keys it has, and a signature
// by one of them over a digest. Whatever the agent wants of its person, a passphrase or a card, it asks for itself.
//
// Promises: no private key comes here. Nothing is asked but to list, to read public keys and to sign; what an agent says
// is bounded, and what cannot be read is an error.
package gpgagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"palyra"
)

// within is how long an agent has for an answer: its person may have to type or touch something.
const within = 2 * time.Minute

// The bounds of an answer.
const (
	maxLine   = 1002 // as assuan has it
	maxAnswer = 64 << 10
	maxKeys   = 256
)

// assuan is a connection to an agent.
type assuan struct {
	socket string
	conn   net.Conn
	in     *bufio.Reader
}

func gone(socket string, err error) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "the gpg-agent at %s does not answer as it should",
		palyra.Clip(socket, 128)).
		WithRemedy("start it (gpgconf --launch gpg-agent), and see that it signs: echo x | gpg --clearsign").WithCause(err)
}

// open connects to an agent; done ends it.
func open(ctx context.Context, socket string) (s *assuan, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		cancel()
		return nil, nil, gone(socket, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	done = func() { stop(); cancel(); _ = conn.Close() }
	s = &assuan{socket: socket, conn: conn, in: bufio.NewReaderSize(conn, maxLine)}
	if _, _, err := s.answer(); err != nil {
		done()
		return nil, nil, gone(socket, err)
	}
	return s, done, nil
}

var errAgent = errors.New("gpgagent: it says no")

// ask sends a line and reads the answer: its data, and the lines of its status.
func (s *assuan) ask(line string) (data []byte, status []string, err error) {
	if _, err := s.conn.Write([]byte(line + "\n")); err != nil {
		return nil, nil, err
	}
	return s.answer()
}

func (s *assuan) answer() (data []byte, status []string, err error) {
	for total := 0; total < maxAnswer; {
		raw, err := s.in.ReadSlice('\n')
		if err != nil {
			return nil, nil, err
		}
		total += len(raw)
		line := strings.TrimSuffix(string(raw), "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "OK":
			return data, status, nil
		case "ERR":
			return nil, nil, fmt.Errorf("%w: %q", errAgent, palyra.Clip(rest, 128))
		case "D":
			part, err := unescape(rest)
			if err != nil {
				return nil, nil, err
			}
			data = append(data, part...)
		case "S":
			status = append(status, rest)
		case "INQUIRE": // it says that it asks its person, or wants what we do not have
			reply := "CAN\n"
			if strings.HasPrefix(rest, "PINENTRY_LAUNCHED") {
				reply = "END\n"
			}
			if _, err := s.conn.Write([]byte(reply)); err != nil {
				return nil, nil, err
			}
		case "#":
		default:
			return nil, nil, errors.New("gpgagent: a line that is none")
		}
	}
	return nil, nil, errors.New("gpgagent: an answer that is too long")
}

// unescape takes the escapes out of data.
func unescape(text string) (out []byte, err error) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out = append(out, text[i])
			continue
		}
		if i+2 >= len(text) {
			return nil, errors.New("gpgagent: an escape that ends")
		}
		b, err := hex.DecodeString(text[i+1 : i+3])
		if err != nil {
			return nil, err
		}
		out, i = append(out, b...), i+2
	}
	return out, nil
}

var validGrip = regexp.MustCompile(`^[0-9A-F]{40}$`)

// Find names the key of an agent by its public half: public has the number that makes it, among other bytes.
func Find(ctx context.Context, socket string, public []byte) (grip string, err error) {
	s, done, err := open(ctx, socket)
	if err != nil {
		return "", err
	}
	defer done()
	_, list, err := s.ask("KEYINFO --list")
	if err != nil && !errors.Is(err, errAgent) {
		return "", gone(socket, err)
	}
	for _, line := range list[:min(len(list), maxKeys)] {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "KEYINFO" || !validGrip.MatchString(words[1]) {
			continue
		}
		text, _, err := s.ask("READKEY " + words[1])
		if errors.Is(err, errAgent) {
			continue
		}
		if err != nil {
			return "", gone(socket, err)
		}
		values, err := numbers(text)
		if err != nil {
			continue
		}
		for _, name := range []string{"n", "q"} {
			if v := bytes.TrimLeft(values[name], "\x00"); len(v) >= 32 && bytes.Contains(public, v) {
				return words[1], nil
			}
		}
	}
	return "", palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the gpg-agent does not have the private half of that key").
		WithRemedy("see which keys it has: gpg --list-secret-keys; for one of a card, put that in and have gpg look at it: gpg --card-status")
}

// Sign has an agent sign a SHA-512 digest, and returns the numbers of the signature by their names. What is said goes to
// the person whom the agent asks.
func Sign(ctx context.Context, socket, grip, said string, sum []byte) (map[string][]byte, error) {
	s, done, err := open(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer done()
	var text []byte
	for _, line := range []string{
		"SIGKEY " + grip, "SETKEYDESC " + described(said), "SETHASH 10 " + strings.ToUpper(hex.EncodeToString(sum)), "PKSIGN",
	} {
		if text, _, err = s.ask(line); err != nil {
			return nil, gone(socket, err)
		}
	}
	values, err := numbers(text)
	if err != nil {
		return nil, gone(socket, err)
	}
	return values, nil
}

// described is a text for people as the agent reads it.
func described(said string) string {
	var b strings.Builder
	for _, c := range []byte(palyra.Clip(said, 200)) {
		switch {
		case c == ' ':
			b.WriteByte('+')
		case c < ' ' || c > '~' || strings.IndexByte("%+\"", c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
