package execute

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/quick"
)

// adopted is what this program takes over from the small one: a call that was proposed, and what came of it so far.
type adopted struct {
	connection string // "": it proposes the call itself
	signal     string // the name of a signal that came as well; "": none did
}

// flags adds the flags by which the small program says it. They are for no one else.
func (a *adopted) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.connection, quick.AdoptFlag, "", "descriptors of a call that was proposed")
	f.StringVar(&a.signal, quick.SignalledFlag, "", "a signal that came before this program")
	_ = f.MarkHidden(quick.AdoptFlag)
	_ = f.MarkHidden(quick.SignalledFlag)
}

// open opens the answer to the call: what came already, and then the connection.
func (a *adopted) open() (io.ReadCloser, error) {
	line, tape, ok := strings.Cut(a.connection, ",")
	connection, err := inherited(line, "connection", os.ModeSocket)
	if err != nil || !ok {
		return nil, exit.Usagef("--%s is for the command itself", quick.AdoptFlag)
	}
	came, err := inherited(tape, "tape", 0)
	if err != nil {
		_ = connection.Close()
		return nil, exit.Usagef("--%s is for the command itself", quick.AdoptFlag)
	}
	return taken{io.MultiReader(came, connection), connection, came}, nil
}

// inherited is a descriptor of a type that the small program left open.
func inherited(number, name string, kind os.FileMode) (*os.File, error) {
	fd, err := strconv.ParseUint(number, 10, 16)
	if err != nil || fd <= 2 {
		return nil, os.ErrInvalid
	}
	f := openInherited(int(fd), name)
	if info, err := f.Stat(); err != nil || info.Mode().Type() != kind {
		return nil, errors.Join(err, os.ErrInvalid)
	}
	return f, nil
}

// taken is an answer in two parts.
type taken struct {
	io.Reader
	connection, came *os.File
}

// Close implements io.Closer.
func (t taken) Close() error {
	_ = t.came.Close()
	return t.connection.Close()
}
