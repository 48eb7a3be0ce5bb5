package execute

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// printed is one stream of the command on its way to ours. Into a file, a pipe or a terminal of the command's own
// the bytes go unchanged; on the person's terminal they are escaped piece by piece. Bytes that did not come as
// pieces are taken from the outcome at the end, so that nothing is printed twice.
type printed struct {
	w      io.Writer
	safe   bool      // escaped for the terminal
	bare   bool      // open lines are left open: not a terminal, or the command's own
	n      int64     // bytes so far
	sum    hash.Hash // digest of them
	gap    bool      // a piece is missing: the rest comes from the outcome
	half   []byte    // the start of an incomplete character
	open   bool      // the last line has no end yet
	broken error     // the output cannot be written any more
}

// printedTo makes a stream to w.
func (x *execution) printedTo(w io.Writer) *printed {
	own := x.raw != nil
	return &printed{w: w, safe: terminal.Is(w) && !own, bare: !terminal.Is(w), sum: sha256.New()}
}

// chunk prints a piece. It skips bytes that were printed already; a piece after a gap ends the pieces.
func (p *printed) chunk(c palyra.Chunk) {
	data := c.Data
	switch {
	case p.gap || c.Offset < 0 || c.Offset > p.n:
		p.gap = true
		return
	case c.Offset+int64(len(data)) <= p.n:
		return
	}
	data = data[p.n-c.Offset:]
	p.n += int64(len(data))
	p.sum.Write(data)
	p.put(data)
}

// rest prints the part of the outcome beyond the pieces, where bytes cut from the middle are replaced by one line.
// It returns false when the outcome does not continue the pieces, which then were more than it keeps.
func (p *printed) rest(whole []byte) bool {
	if p.n > int64(len(whole)) {
		return false
	}
	sum := sha256.Sum256(whole[:p.n])
	if !bytes.Equal(sum[:], p.sum.Sum(nil)) {
		return false
	}
	p.put(whole[p.n:])
	p.n = int64(len(whole))
	p.sum.Reset()
	p.sum.Write(whole)
	return true
}

// leftOut is the line in an outcome that replaces bytes cut from the middle of a stream.
var leftOut = regexp.MustCompile(`\n… ([0-9]{1,18}) bytes left out …\n`)

// parts splits what an outcome keeps of a stream that had total bytes. ok is false when the split
// is not clear: the command printed such a line itself.
func parts(kept []byte) (head, tail []byte, total int64, ok bool) {
	marks := leftOut.FindAllSubmatchIndex(kept, 2)
	if len(marks) != 1 {
		return kept, nil, int64(len(kept)), len(marks) == 0
	}
	m := marks[0]
	n, err := strconv.ParseInt(string(kept[m[2]:m[3]]), 10, 64)
	return kept[:m[0]], kept[m[1]:], int64(m[0]) + n + int64(len(kept)-m[1]), err == nil
}

// end prints the part of the outcome beyond the pieces, and returns how much is missing; -1:
// unknown. The pieces of a stream can be more than the outcome keeps, and reach into its tail. A
// file or a pipe gets nothing after a gap: a line that says so would be taken for output.
func (p *printed) end(kept []byte) (missing int64) {
	head, tail, total, ok := parts(kept)
	start := total - int64(len(tail))
	switch {
	case !ok && p.bare, p.n > total:
		return -1
	case !ok || tail == nil: // complete, or with a line of the command's own
		if !p.rest(kept) || !ok {
			return -1
		}
		return 0
	case p.n >= start:
		p.put(tail[p.n-start:])
		p.n = total
		return 0
	case p.n < int64(len(head)) && !p.rest(head):
		return -1
	}
	missing = start - p.n
	if p.bare {
		return total - p.n
	}
	p.put(fmt.Appendf(nil, "\n… %d bytes left out …\n", missing))
	p.put(tail)
	return missing
}

// restOf prints the rest of both streams and says how much of each is missing.
func (x *execution) restOf(o palyra.Outcome) (missing []string) {
	for _, s := range []struct {
		name string
		p    *printed
		kept []byte
		cut  bool
	}{
		{"stdout", x.printedOut, outcomeStream(o.Stdout, o.StdoutB64), o.Truncated},
		{"stderr", x.printedErr, outcomeStream(o.Stderr, o.StderrB64), o.Truncated},
	} {
		n := int64(0)
		if s.cut {
			n = s.p.end(s.kept)
		} else if !s.p.rest(s.kept) {
			n = -1
		}
		s.p.flush()
		switch {
		case s.p.broken != nil: // nobody is there to miss anything
		case n > 0 && s.p.bare:
			missing = append(missing, fmt.Sprintf("of %s the first %d bytes are here and %d are missing", s.name, s.p.n, n))
		case n > 0:
			missing = append(missing, fmt.Sprintf("of %s %d bytes are left out", s.name, n))
		case n < 0:
			missing = append(missing, fmt.Sprintf("of %s %d bytes are here, and some may be missing", s.name, s.p.n))
		}
	}
	return missing
}

// cutShort reports what was not printed, and how to get it; false: everything was.
func (x *execution) cutShort(missing []string) bool {
	if len(missing) == 0 {
		return false
	}
	x.freshLine()
	fmt.Fprintf(x.inv.Stderr, "palyra: the output was longer than tool_call.output_bytes and is not whole: %s\n", strings.Join(missing, "; "))
	fmt.Fprintln(x.inv.Stderr,
		"  remedy: have the command write to a file of the workspace (palyra exec -- sh -c 'CMD > FILE'), or have the limit raised")
	return true
}

// put writes bytes, escaped where necessary. It keeps back an incomplete character, whose end may
// come with the next piece.
func (p *printed) put(b []byte) {
	if p.broken != nil || len(b) == 0 {
		return
	}
	if p.safe {
		text := append(p.half, b...)
		cut := len(text) - unfinished(text)
		p.half = bytes.Clone(text[cut:])
		b = []byte(show.Screen(string(text[:cut])))
	}
	p.write(b)
}

// flush writes the bytes that put kept back, at the end.
func (p *printed) flush() {
	if len(p.half) > 0 && p.broken == nil {
		p.write([]byte(show.Screen(string(p.half))))
		p.half = nil
	}
}

func (p *printed) write(b []byte) {
	if len(b) == 0 {
		return
	}
	_, p.broken = p.w.Write(b)
	p.open = b[len(b)-1] != '\n'
}

// unread reports whether the reader of the stream has gone.
func (p *printed) unread() bool { return errors.Is(p.broken, syscall.EPIPE) }

// freshLine ends an open line on a terminal, so that our own message starts one.
func (p *printed) freshLine() {
	if p != nil && p.open && !p.bare && p.broken == nil {
		p.write([]byte("\n"))
	}
}

// unfinished is how many bytes at the end of b are an incomplete character or line end.
func unfinished(b []byte) int {
	if bytes.HasSuffix(b, []byte("\r")) {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// spool holds pieces on their way from the connection to the reader of our output. A reader that
// pauses must not make the daemon take us for gone; the daemon's own limit bounds how much is kept.
type spool struct {
	mu     sync.Mutex
	change *sync.Cond
	chunks []palyra.Chunk
	closed bool
}

func newSpool() *spool {
	s := &spool{}
	s.change = sync.NewCond(&s.mu)
	return s
}

// add puts a piece at the end.
func (s *spool) add(c palyra.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks = append(s.chunks, c)
	s.change.Signal()
}

// close ends the pieces.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Signal()
}

// next waits for the next piece; false after the last.
func (s *spool) next() (palyra.Chunk, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.chunks) == 0 {
		if s.closed {
			return palyra.Chunk{}, false
		}
		s.change.Wait()
	}
	c := s.chunks[0]
	s.chunks = s.chunks[1:]
	return c, true
}

// takenAway lists the paths that the command made and that were moved to quarantine.
func (x *execution) takenAway(call palyra.CallID, paths []palyra.PathText) {
	const shown = 10
	if len(paths) == 0 {
		return
	}
	x.freshLine()
	fmt.Fprintln(x.inv.Stderr, "palyra: the command made or changed what is sealed; it is in quarantine, not in the workspace:")
	for _, p := range paths[:min(shown, len(paths))] {
		fmt.Fprintln(x.inv.Stderr, "  "+screen.Path(p))
	}
	if n := len(paths) - shown; n > 0 {
		fmt.Fprintf(x.inv.Stderr, "  and %d more\n", n)
	}
	if name := x.inv.RemoteName(); name != "" {
		fmt.Fprintln(x.inv.Stderr, "  it lies in the quarantine directory of "+show.Arg(name)+", under "+show.Arg(string(call)))
	} else if c, err := x.inv.Config(); err == nil {
		fmt.Fprintln(x.inv.Stderr, "  it lies in "+show.Arg(filepath.Join(c.Paths.Quarantine, string(call)))+
			", where index.jsonl says what is what; each item is in a closed directory: chmod 700 it to look")
	}
	fmt.Fprintln(x.inv.Stderr, "  remedy: make it yourself, outside the sandbox, if you want it; "+
		"repositories can be made with --profile git-setup, which asks every time")
}

// readOnly explains a write that the room refused, which a command may report as the kernel does, or not at all.
func (x *execution) readOnly(o palyra.Outcome) {
	if len(o.Quarantined) > 0 || !strings.Contains(o.Stderr, "Read-only file system") {
		return
	}
	x.freshLine()
	fmt.Fprintln(x.inv.Stderr, "palyra: the command could not write something: "+
		"all outside the workspace stays as it is, and so does what is sealed for this run")
	fmt.Fprintln(x.inv.Stderr, "  remedy: "+string(palyra.ToolFileWrite)+" writes what is sealed, and asks about it; "+
		"--profile git-setup opens .git, and asks every time")
}

// keptHalf says that the changes of a command that was ended early are the workspace's all the same.
func (x *execution) keptHalf(o palyra.Outcome) {
	early := o.Signal != "" || o.Outcome == palyra.OutcomeTimedOut || o.ExitCode == exit.Cancelled // as a shell says that Ctrl-C ended it
	if !early || o.Effects != palyra.EffectsKept || o.Changes == nil {
		return
	}
	x.freshLine()
	x.tell("what it had changed by then is kept, %s: palyra undo %s takes it back",
		screen.Count(o.Changes.Total(), "path"), show.Arg(string(o.CallID)))
}

// leftBehind lists the remnants of the command.
func (x *execution) leftBehind(list []string) {
	const shown = 10
	if len(list) == 0 {
		return
	}
	x.freshLine()
	fmt.Fprintln(x.inv.Stderr, "palyra: the command left what you should know of (docs/threats.md, \"What a run leaves behind\"):")
	for _, text := range list[:min(shown, len(list))] {
		fmt.Fprintln(x.inv.Stderr, "  "+show.Line(text))
	}
	if n := len(list) - shown; n > 0 {
		fmt.Fprintf(x.inv.Stderr, "  and %d more\n", n)
	}
}
