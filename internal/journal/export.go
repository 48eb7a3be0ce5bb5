package journal

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/store"
)

const (
	exportFormat = "palyra-journal-export/1"
	sealFormat   = "palyra.dev/journal-segment/1"
	exportBatch  = 512 // entries read at a time
)

// exportHeader is the first line of an export.
type exportHeader struct {
	Format string          `json:"format"`
	Origin string          `json:"origin"`
	From   int64           `json:"from"`
	To     int64           `json:"to"`
	Prev   palyra.Digest   `json:"prev"`
	Left   []palyra.Digest `json:"left"`
}

// exportTrailer is the last.
type exportTrailer struct {
	Checkpoint string          `json:"checkpoint"`
	Proof      []palyra.Digest `json:"proof"`
	Seal       string          `json:"seal"`
}

// An entry's line is these and the entry's text between them; the chain's digest has one length.
const (
	lineStart = `{"chain":"`
	lineEntry = `","entry":`
	lineEnd   = "}\n"
)

func sealText(origin string, from, to int64, sum []byte) string {
	return fmt.Sprintf("%s\n%s\n%d %d\nsha256:%x\n", sealFormat, origin, from, to, sum)
}

// Export writes entries from to to as a sealed segment (see the package comment) and returns how many it wrote.
// Zero from is the first entry, zero to the last. Entries are checked against the tree on their way out: when one
// was changed there is no last line, and so no seal. Nothing else is locked meanwhile.
func (j *Journal) Export(ctx context.Context, w io.Writer, from, to int64) (n int64, err error) {
	s, _ := j.committed()
	from = max(from, 1)
	to = cmp.Or(to, s.head.size)
	if from > to || to > s.head.size {
		return 0, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "entries %d to %d cannot be exported", from, to).
			WithRemedy("the journal has entries 1 to %d", s.head.size)
	}
	e := exporter{j: j, state: s, out: bufio.NewWriterSize(w, 64<<10), sum: sha256.New(), from: from, to: to}
	if err := e.run(ctx); err != nil {
		return e.seen.size - (from - 1), err
	}
	return to - from + 1, nil
}

// exporter is one export on its way.
type exporter struct {
	j        *Journal
	state    state
	out      *bufio.Writer
	sum      hash.Hash // of all lines written
	from, to int64

	proof tlog.TreeProof
	seen  frontier
	check checker
}

func (e *exporter) run(ctx context.Context) error {
	if err := e.j.db.Read(ctx, e.open); err != nil {
		return unproven(e.from, err)
	}
	header := exportHeader{
		Format: exportFormat, Origin: e.j.origin, From: e.from, To: e.to, Prev: digest(e.check.chain), Left: digests(e.seen.stack),
	}
	if err := e.line(header); err != nil {
		return err
	}
	for e.seen.size < e.to {
		if err := e.batch(ctx); err != nil {
			return err
		}
	}
	if err := tlog.CheckTree(e.proof, e.state.head.size, e.state.head.root, e.to, e.seen.root()); err != nil {
		return unproven(e.from, err)
	}
	seal, err := signText(e.j.signing(), sealText(e.j.origin, e.from, e.to, e.sum.Sum(nil)))
	if err != nil {
		return err
	}
	h, err := e.j.checkpointed(e.state.head)
	if err != nil {
		return err
	}
	err = e.line(exportTrailer{Checkpoint: h.note, Proof: digests(e.proof), Seal: seal})
	return errors.Join(err, e.out.Flush())
}

// open reads what the segment stands on: the tree before it, the way from its
// end to the head, and the chain before its first entry.
func (e *exporter) open(tx *store.Tx) (err error) {
	r := e.state.hashes(tx)
	left, err := r.ReadHashes(subtreeIndexes(e.from - 1))
	if err != nil {
		return err
	}
	if e.proof, err = tlog.ProveTree(e.state.head.size, e.to, r); err != nil {
		return err
	}
	e.seen = frontier{size: e.from - 1, stack: left}
	e.check = startChecker(e.j.origin)
	if e.from == 1 {
		return nil
	}
	var chain []byte
	if err := tx.Get("SELECT chain FROM journal_entries WHERE seq = ?", []any{e.from - 1}, &chain); err != nil {
		return err
	}
	if len(chain) != tlog.HashSize {
		return fmt.Errorf("journal: the chain hash of entry %d is damaged", e.from-1)
	}
	e.check.next, e.check.chain = e.from, tlog.Hash(chain)
	return nil
}

// subtreeIndexes are the places of the complete subtrees of a tree, largest first.
func subtreeIndexes(size int64) (list []int64) {
	start := int64(0)
	for level := 62; level >= 0; level-- {
		if size&(1<<level) != 0 {
			list = append(list, tlog.StoredHashIndex(level, start>>level))
			start += 1 << level
		}
	}
	return list
}

// batch copies out the next entries: read first, written after, so that a slow writer holds no view of the tables.
func (e *exporter) batch(ctx context.Context) error {
	var lines [][]byte
	err := e.j.db.Read(ctx, func(tx *store.Tx) error {
		first := e.seen.size + 1
		return tx.Each(rowsQuery, []any{first, min(first+exportBatch-1, e.to)}, func(scan func(...any) error) error {
			if err := e.check.scan(scan); err != nil {
				return err
			}
			if p := e.check.check(); p != nil {
				return unproven(p.Seq, errors.New(p.Why))
			}
			text, err := jsonText(e.check.row.entry)
			if err != nil {
				return err
			}
			e.seen.push(e.check.leaf, nil)
			lines = append(lines, fmt.Appendf(nil, "%s%s%s%s%s", lineStart, digest(e.check.chain), lineEntry, text, lineEnd))
			return nil
		})
	})
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return unproven(e.seen.size+1, errors.New("it is missing"))
	}
	for _, l := range lines {
		if err := e.write(l); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) line(v any) error {
	text, err := canonical(v)
	if err != nil {
		return err
	}
	return e.write(append(text, '\n'))
}

func (e *exporter) write(b []byte) error {
	e.sum.Write(b)
	_, err := e.out.Write(b)
	return err
}
