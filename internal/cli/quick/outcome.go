package quick

import (
	"bytes"
	"encoding/base64"
	"io"
	"slices"
)

// piece is something that a command printed.
type piece struct {
	failing bool // to stderr
	data    []byte
}

// stream is the one that it goes to.
func (p piece) stream(stdout, stderr io.Writer) io.Writer {
	if p.failing {
		return stderr
	}
	return stdout
}

// ended is a call that finished and about which nothing is to be said.
type ended struct {
	code    int
	printed []piece // in the order in which it came
}

// news takes the messages of a call, one by one.
type news struct {
	pieces [2][]byte // what came as pieces, of stdout and of stderr
	ended
	done bool
}

// hear takes a message. An error means that only the full program understands it.
func (n *news) hear(msg []byte) error {
	return fields(msg, func(number int, _ uint64, data []byte) error {
		switch number {
		case newsAccepted, newsRunning:
			return nil
		case newsOutput:
			return n.output(data)
		case newsOutcome:
			return n.outcome(data)
		}
		return errStrange // a question, or an event of a newer daemon
	})
}

func (n *news) output(msg []byte) error {
	var stream string
	var offset uint64
	var p piece
	err := fields(msg, func(number int, v uint64, data []byte) error {
		switch number {
		case outputStream:
			stream = string(data)
		case outputOffset:
			offset = v
		case outputData:
			p.data = data
		}
		return nil
	})
	which := slices.Index([]string{"stdout", "stderr"}, stream)
	if err != nil || which < 0 || offset != uint64(len(n.pieces[which])) {
		return errStrange
	}
	p.failing = which == 1
	n.pieces[which] = append(n.pieces[which], p.data...)
	n.printed = append(n.printed, p)
	return nil
}

// readOnly is what a command says whose write the room refused; the full program explains it.
var readOnly = []byte("Read-only file system")

// interrupted is how a shell says that Ctrl-C ended a command.
const interrupted = 130

func (n *news) outcome(msg []byte) error {
	var kind string
	var kept [2][]byte
	err := fields(msg, func(number int, v uint64, data []byte) (err error) {
		switch number {
		case outcomeKind:
			kind = string(data)
		case outcomeExit:
			n.code = int(v & 0xff)
		case outcomeStdout:
			kept[0] = data
		case outcomeStderr:
			kept[1] = data
		case outcomeStdout64:
			kept[0], err = base64.StdEncoding.AppendDecode(nil, data)
		case outcomeStderr64:
			kept[1], err = base64.StdEncoding.AppendDecode(nil, data)
		case outcomeAttestation:
			return silent(data)
		default:
			if !slices.Contains(outcomeSilent[:], number) {
				return errStrange
			}
		}
		return err
	})
	if err != nil || n.done || kind != "finished" || n.code == interrupted || bytes.Contains(kept[1], readOnly) {
		return errStrange
	}
	for i, b := range kept {
		if !bytes.HasPrefix(b, n.pieces[i]) {
			return errStrange
		}
		if rest := b[len(n.pieces[i]):]; len(rest) > 0 {
			n.printed = append(n.printed, piece{i == 1, rest})
		}
	}
	n.done = true
	return nil
}

// silent refuses the attestation of a run that tried to connect to anything: the full program says what it did not reach.
func silent(envelope []byte) error {
	_, rest, ok := bytes.Cut(envelope, []byte(`"payload":"`))
	text, _, whole := bytes.Cut(rest, []byte(`"`))
	statement, err := base64.StdEncoding.AppendDecode(nil, text)
	if !ok || !whole || err != nil || bytes.Contains(statement, []byte(`"egress":[{`)) {
		return errStrange
	}
	return nil
}
