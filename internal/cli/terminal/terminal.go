// Package terminal asks the person at the terminal for a line, or for a secret that is not shown.
// It reads the terminal itself and never standard input, which may be an agent's.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"palyra"
)

// ttyPath is the person's own terminal, whatever stdin is.
const ttyPath = "/dev/tty"

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// maxAnswer is the longest line a person may type.
const maxAnswer = 4096

// AskLine asks on the terminal and returns the typed line, without spaces around it. It ends with ctx.
func AskLine(ctx context.Context, prompt string) (string, error) {
	tty, err := openTTY()
	if err != nil {
		return "", err
	}
	defer tty.Close()
	if _, err := io.WriteString(tty, prompt); err != nil {
		return "", fmt.Errorf("cli: ask: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(tty, maxAnswer)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		_, _ = io.WriteString(tty, "\r\n") // the terminal may have become raw meanwhile
		return "", context.Cause(ctx)
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("cli: ask: %w", err)
	case err != nil:
		return "", palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "no answer was typed")
	}
	return strings.TrimSpace(line), nil
}

// AskSecret asks for a line that is not shown. It reads the terminal only: a passphrase from a pipe, a variable
// or a flag would be within reach of the agent that the passphrase is to keep out. The terminal's echo is off
// before the prompt appears, and on again whatever happens. It ends with ctx.
func AskSecret(ctx context.Context, prompt string) (palyra.Secret, error) {
	tty, err := openTTY()
	if err != nil {
		return palyra.Secret{}, err
	}
	defer tty.Close()
	loud, err := silence(tty)
	if err != nil {
		return palyra.Secret{}, fmt.Errorf("cli: ask: %w", err)
	}
	defer loud()
	discard(tty) // typed before the prompt
	if _, err := io.WriteString(tty, prompt); err != nil {
		return palyra.Secret{}, fmt.Errorf("cli: ask: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := readSecret(tty)
	_, _ = io.WriteString(tty, "\r\n")
	if err != nil {
		clear(line)
		return palyra.Secret{}, palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "no passphrase was typed").WithCause(err)
	}
	return palyra.NewSecret(line), nil
}

// ErrInterrupted is Ctrl-C in a terminal without echo, where it is a key like any other and no signal.
var ErrInterrupted = errors.New("interrupted")

// maxDrain is the most typed bytes that are discarded.
const maxDrain = 64 << 10

// Drain discards keys that were typed while nobody read: they were meant for a question of ours,
// and the shell must not take them for a command.
func Drain() {
	tty, err := openTTY()
	if err != nil {
		return
	}
	defer tty.Close()
	loud, err := silence(tty) // so that an incomplete line is read as well
	if err != nil {
		return
	}
	defer loud()
	discard(tty)
}

// discard discards the keys typed so far to a terminal without echo.
func discard(tty *os.File) {
	_ = tty.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, tty, maxDrain)
	_ = tty.SetReadDeadline(time.Time{})
}

// Hush keeps the terminal's echo off between the prompts of one secret, so that a passphrase is not shown that
// is typed while an earlier one is still being checked. Keys typed to no prompt are discarded at the end: the
// shell would take them for a command. Without a terminal it does nothing.
func Hush() (loud func()) {
	tty, err := openTTY()
	if err != nil {
		return func() {}
	}
	restore, err := silence(tty)
	if err != nil {
		_ = tty.Close()
		return func() {}
	}
	return func() {
		discard(tty)
		restore()
		_ = tty.Close()
	}
}

// silence makes the terminal deliver every key at once, without echo. The returned function undoes that.
func silence(tty *os.File) (loud func(), err error) {
	raw, err := tty.SyscallConn()
	if err != nil {
		return nil, err
	}
	var state *term.State
	var failure error
	if err := raw.Control(func(fd uintptr) { state, failure = term.MakeRaw(int(fd)) }); err != nil || failure != nil {
		return nil, errors.Join(err, failure)
	}
	return func() {
		_ = raw.Control(func(fd uintptr) { _ = term.Restore(int(fd), state) })
	}, nil
}

// The keys that end or change a line in a terminal without echo.
const (
	keyInterrupt = 0x03
	keyEnd       = 0x04
	keyBack      = 0x08
	keyKill      = 0x15
	keyDelete    = 0x7f
)

// readSecret reads keys up to Enter. Memory that it outgrows is overwritten.
func readSecret(r io.Reader) ([]byte, error) {
	line := make([]byte, 0, maxAnswer)
	var key [1]byte
	for {
		if _, err := io.ReadFull(r, key[:]); err != nil {
			return line, err
		}
		switch k := key[0]; {
		case k == '\r' || k == '\n':
			return line, nil
		case k == keyInterrupt:
			return line, ErrInterrupted
		case k == keyEnd && len(line) == 0:
			return line, errors.New("given up")
		case k == keyBack || k == keyDelete:
			line = lastOff(line)
		case k == keyKill:
			clear(line)
			line = line[:0]
		case len(line) == maxAnswer:
			return line, errors.New("too long")
		case k >= ' ':
			line = append(line, k)
		}
	}
}

// lastOff removes the last character of a line.
func lastOff(line []byte) []byte {
	_, size := utf8.DecodeLastRune(line)
	clear(line[len(line)-size:])
	return line[:len(line)-size]
}

// openTTY opens the person's terminal.
func openTTY() (*os.File, error) {
	tty, err := os.OpenFile(ttyPath, os.O_RDWR|nonblock, 0)
	if err != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonUnsupported, "there is no terminal to ask on").
			WithRemedy("run it from a terminal").WithCause(err)
	}
	return tty, nil
}
