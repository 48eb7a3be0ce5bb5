package journal

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
)

// maxLine bounds a line of an export: an entry at its largest, every byte of it escaped.
const maxLine = 1 << 20

// segment is the verification of an export.
type segment struct {
	in       *bufio.Reader
	keys     keys
	progress func(done, total int64)

	report Report
	header exportHeader
	sum    hash.Hash // of all lines before the last
	seen   frontier
	chain  tlog.Hash
}

func verifyExport(ctx context.Context, r io.Reader, k keys, progress func(done, total int64)) (Report, error) {
	s := segment{in: bufio.NewReaderSize(r, 64<<10), keys: k, progress: progress, sum: sha256.New()}
	s.report.Source = "export"
	p, err := s.run(ctx)
	if err != nil {
		return s.report, err
	}
	s.report.Problem = p
	return s.report.result()
}

var errLong = errors.New("a line is longer than any of an export")

// next returns the next line without its end. A line that is cut off does not count as one.
func (s *segment) next() ([]byte, error) {
	var whole []byte
	for {
		part, err := s.in.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case err == nil:
			return whole[:len(whole)-1], nil
		case len(whole) > maxLine:
			return nil, errLong
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// run reads the lines in order. A line counts only when it is byte for byte the text that an export writes
// for the same content.
func (s *segment) run(ctx context.Context) (*Problem, error) {
	first, err := s.next()
	if err != nil {
		return unread(0, "the first line", err)
	}
	if err := s.open(first); err != nil {
		return problem(0, "the first line: %v", err), nil
	}
	for seq := s.header.From; seq <= s.header.To; seq++ {
		if seq%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text, err := s.next()
		if err != nil {
			return unread(seq, "its line", err)
		}
		if p := s.entry(seq, text); p != nil {
			return p, nil
		}
		if s.progress != nil && (seq%blockSize == 0 || seq == s.header.To) {
			s.progress(seq-s.header.From+1, s.header.To-s.header.From+1)
		}
	}
	last, err := s.next()
	if err != nil {
		return unread(0, "the last line", err)
	}
	if p := s.seal(last); p != nil {
		return p, nil
	}
	if b, err := s.in.ReadByte(); !errors.Is(err, io.EOF) {
		return problem(0, "there is more after the last line (%q)", b), nil
	}
	return nil, nil
}

func unread(seq int64, what string, err error) (*Problem, error) {
	if errors.Is(err, io.EOF) {
		return problem(seq, "the file ends before the end of %s", what), nil
	}
	if errors.Is(err, errLong) {
		return problem(seq, "%v", err), nil
	}
	return nil, fmt.Errorf("journal: read the export: %w", err)
}

func (s *segment) open(text []byte) error {
	h := &s.header
	if err := exact(text, h); err != nil {
		return err
	}
	prev, ok := parseDigest(h.Prev)
	left, err := hashes(h.Left)
	switch {
	case err != nil || len(left) != len(subtreeIndexes(h.From-1)):
		return errors.New("it does not have the tree before its entries")
	case h.Format != exportFormat:
		return errors.New("not an export of a journal")
	case !ok || h.From < 1 || h.To < h.From:
		return errors.New("its range or chain hash is malformed")
	case h.From == 1 && prev != chainStart(h.Origin):
		return errors.New("the chain does not start with the journal's name")
	}
	s.chain, s.seen = prev, frontier{size: h.From - 1, stack: left}
	s.report.Origin, s.report.From, s.report.To = h.Origin, h.From, h.To
	s.add(text)
	return nil
}

// exact reads a line into v, whose canonical text it must be.
func exact(text []byte, v any) error {
	if err := unmarshalStrict(text, v); err != nil {
		return errors.New("not a line of an export")
	}
	again, err := canonical(v)
	if err != nil || !bytes.Equal(again, text) {
		return errors.New("it was changed")
	}
	return nil
}

func (s *segment) add(text []byte) {
	s.sum.Write(text)
	s.sum.Write([]byte{'\n'})
}

const chainText = len("sha256:") + 2*tlog.HashSize

// entry checks one entry's line and its place in the chain.
func (s *segment) entry(seq int64, text []byte) *Problem {
	open := len(lineStart) + chainText + len(lineEntry)
	if len(text) < open+len(lineEnd)-1 {
		return problem(seq, "its line is cut short")
	}
	b, err := fromJSON(text[open : len(text)-1])
	if err != nil {
		return problem(seq, "its line is not JSON")
	}
	f, err := parseEntry(b)
	if err != nil {
		return problem(seq, "%v", err)
	}
	if f.seq != seq {
		return problem(seq, "entry %d stands in its place", f.seq)
	}
	leaf := tlog.RecordHash(b)
	chain := link(s.chain, leaf)
	if claimed := palyra.Digest(text[len(lineStart):][:chainText]); claimed != digest(chain) {
		return problem(seq, "its chain hash does not follow from the one before")
	}
	again, err := jsonText(b)
	if err != nil || string(text) != lineStart+string(digest(chain))+lineEntry+string(again)+lineEnd[:1] {
		return problem(seq, "its line is not spelt as it was written")
	}
	s.seen.push(leaf, nil)
	s.chain = chain
	s.add(text)
	return nil
}

// seal checks the last line: the signatures, and that the entries are those that the checkpoint covers.
func (s *segment) seal(text []byte) *Problem {
	var t exportTrailer
	if err := exact(text, &t); err != nil {
		return problem(0, "the last line: %v", err)
	}
	h, err := s.keys.openHead(t.Checkpoint)
	if err != nil {
		return problem(0, "the checkpoint: %v", err)
	}
	s.report.covers(h)
	sealed, key, err := s.keys.open(t.Seal)
	if err != nil {
		return problem(0, "the seal: %v", err)
	}
	from, to := s.header.From, s.header.To
	changed := func(why string) *Problem { return &Problem{Seq: from, Through: to, Why: why} }
	switch {
	case h.origin != s.header.Origin || len(key) < len(h.origin) || key[:len(h.origin)+1] != h.origin+"+":
		return problem(0, "the first line, the checkpoint and the seal are of different journals")
	case to > h.size:
		return problem(h.size+1, "the checkpoint ends before it")
	case sealed != sealText(h.origin, from, to, s.sum.Sum(nil)):
		return changed("they are not the lines that were sealed")
	case to == h.size && s.chain != h.chain:
		return changed("the chain does not end where the checkpoint says")
	}
	proof, err := hashes(t.Proof)
	if err != nil || tlog.CheckTree(proof, h.size, h.root, to, s.seen.root()) != nil {
		return changed("they are not the entries that the checkpoint covers")
	}
	s.report.Checkpoints = 1
	return nil
}
