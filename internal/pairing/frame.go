package pairing

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"palyra"
)

// maxFrame is the longest message in bytes.
const maxFrame = 16 << 10

// The types of messages, in the order in which they are sent.
const (
	typeHello   = "hello"   // device: name and the first half of its proof
	typeShare   = "share"   // daemon: its half of the key exchange (PIN only)
	typeConfirm = "confirm" // device: the rest of its proof (PIN only)
	typeWelcome = "welcome" // daemon: its own proof, and whom to trust
	typeIssued  = "issued"  // daemon: the certificate
	typeAck     = "ack"     // device: stored
	typeDone    = "done"    // daemon: known
	typeError   = "error"   // either: it ends here
)

const (
	methodPIN = "pin"
	methodQR  = "qr"
)

// message is one frame. Which fields it needs depends on its type; whoever reads one checks those.
type message struct {
	Type        string        `json:"type"`
	Method      string        `json:"method,omitempty"`
	Name        string        `json:"name,omitempty"`
	Share       []byte        `json:"share,omitempty"`
	Tag         []byte        `json:"tag,omitempty"`
	StateID     string        `json:"state_id,omitempty"`
	Authorities [][]byte      `json:"authorities,omitempty"`
	Device      []byte        `json:"device,omitempty"` // JSON, as it was authenticated
	Certificate []byte        `json:"certificate,omitempty"`
	Reason      palyra.Reason `json:"reason_code,omitempty"`
	AfterMS     int64         `json:"after_ms,omitempty"`
}

var (
	errFrameSize = errors.New("pairing: a message is empty or too long")
	errFrame     = errors.New("pairing: a message is malformed")
	errSequence  = errors.New("pairing: a message that was not due")
)

func writeFrame(w io.Writer, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("pairing: write: %w", err)
	}
	if len(body) > maxFrame {
		return errFrameSize
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("pairing: write: %w", err)
	}
	return nil
}

func readFrame(r io.Reader) (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, fmt.Errorf("pairing: read: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return message{}, errFrameSize
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return message{}, fmt.Errorf("pairing: read: %w", err)
	}
	return parse(body)
}

func parse(body []byte) (message, error) {
	var m message
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return message{}, errFrame
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || m.Type == "" {
		return message{}, errFrame
	}
	return m, nil
}

// wire is a connection with a time limit on each message.
type wire struct {
	conn     net.Conn
	patience time.Duration
}

func (w wire) send(m message) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.patience)); err != nil {
		return broken(err)
	}
	if err := writeFrame(w.conn, m); err != nil {
		return broken(err)
	}
	return nil
}

// receive waits for one of the types, at most limit. An error message of the other side is returned as an
// error in our words.
func (w wire) receive(limit time.Duration, types ...string) (message, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return message{}, broken(err)
	}
	return w.expect(types...)
}

// expect is receive without a limit of its own.
func (w wire) expect(types ...string) (message, error) {
	m, err := readFrame(w.conn)
	switch {
	case err != nil:
		return message{}, broken(err)
	case m.Type == typeError:
		return message{}, wireError(m.Reason, m.AfterMS)
	case !slices.Contains(types, m.Type):
		return message{}, broken(errSequence)
	}
	return m, nil
}

// refuse tells the other side why it ends here and waits a moment for it to hang
// up: a connection closed over unread bytes may lose what was just written.
func (w wire) refuse(err error) {
	if w.refuseNoWait(err) {
		_, _ = io.CopyN(io.Discard, w.conn, 2*maxFrame) // best effort: the connection is closed either way
	}
}

// refuseNoWait is refuse without the waiting: a reader has a moment from now on.
func (w wire) refuseNoWait(err error) bool {
	e := palyra.AsError(err)
	said := w.send(message{Type: typeError, Reason: problem(e.Reason).Reason, AfterMS: e.After.Milliseconds()}) == nil
	return w.conn.SetReadDeadline(time.Now().Add(min(w.patience, time.Second))) == nil && said
}
