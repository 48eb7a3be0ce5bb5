package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/store"
)

const (
	blockSize  = 32 * tileWidth // entries looked at by one reader at a time
	maxReaders = 3              // the store has four; one stays free for others
)

// Verify checks the whole journal as it stands when the check begins: every entry, the tree, the tiles, the
// checkpoints, the head and its signature, and that the file still holds what this process committed. progress may
// be nil. With an auditor the tables beside the journal and the file itself are looked at too. An error is returned
// whenever the report has a problem.
func (j *Journal) Verify(ctx context.Context, progress func(done, total int64), auditors ...func(now time.Time) Auditor) (Report, error) {
	s, _ := j.committed()
	trusted := func() keys { _, k := j.committed(); return k }
	v := verifier{read: j.db.Read, trusted: trusted, progress: progress, at: &s.head}
	for _, a := range auditors {
		v.auditor, v.whole = a, j.db.Check
	}
	v.report.Source = "live"
	return v.run(ctx)
}

// verifier is one verification of the tables.
type verifier struct {
	read     func(context.Context, func(*store.Tx) error) error
	trusted  func() keys // asked once the view is fixed: a key in it may be newer than this check
	progress func(done, total int64)
	at       *head                                 // what this process committed last, when it is the one that writes
	auditor  func(now time.Time) Auditor           // of the tables beside the journal; nil: they are not looked at
	whole    func(context.Context) (string, error) // says what is wrong with the file

	report Report
	keys   keys
	head   head   // as signed
	extent extent // as found
	seen   tree
	good   int64           // size of the last checkpoint that matched
	kept   keptCheckpoints // checkpoints, as found
}

// run reads the head, then the entries in blocks, and holds the one against the other. The first problem in the
// order of entries is reported; one of the head only when the entries have none.
func (v *verifier) run(ctx context.Context) (Report, error) {
	headProblem, err := v.open(ctx)
	if err != nil {
		return v.report, err
	}
	p, err := v.entries(ctx)
	if err != nil {
		return v.report, err
	}
	p = cmp.Or(p, headProblem)
	if p == nil {
		p = v.finish()
	}
	if p == nil {
		if p, err = v.audit(ctx); err != nil {
			return v.report, err
		}
	}
	v.report.Problem = p
	return v.report.result()
}

// open fixes what is to be verified, in one view of the tables.
func (v *verifier) open(ctx context.Context) (p *Problem, err error) {
	err = v.read(ctx, func(tx *store.Tx) error {
		if v.extent, err = readExtent(tx); err != nil {
			return notState(ctx, err)
		}
		v.keys = v.trusted()
		h, found, err := readHead(tx, v.keys)
		if e := (*palyra.Error)(nil); errors.As(err, &e) || ctx.Err() != nil {
			return err
		}
		switch {
		case err != nil:
			p = problem(0, "%v", err)
		case !found && !v.extent.empty():
			p = problem(0, "there is no signed head")
		case !found && v.at == nil:
			p = problem(0, "it is empty: there is nothing signed to verify")
		case found:
			v.head = h
			v.report.covers(h)
			p, err = wrongTypes(tx)
			return err
		}
		return nil
	})
	v.report.From, v.report.To = v.extent.first, v.extent.last
	return p, err
}

// wrongTypes finds an entry with a column of another type than it was written with. SQLite lets a text stand as
// bytes: the line would read the same, and searches by its kind or call would pass it over.
func wrongTypes(tx *store.Tx) (*Problem, error) {
	var seq int64
	err := tx.Get(`SELECT COALESCE(MIN(seq), 0) FROM journal_entries WHERE typeof(kind) <> 'text' OR typeof(time) <> 'integer'
		OR typeof(entry) <> 'blob' OR typeof(leaf) <> 'blob' OR typeof(chain) <> 'blob' OR (call_id IS NOT NULL AND (typeof(call_id) <> 'text' OR call_id = ''))`,
		nil, &seq)
	if err != nil || seq == 0 {
		return nil, err
	}
	return problem(seq, "a column has another type than it was written with"), nil
}

// notState explains tables that are not there.
func notState(ctx context.Context, err error) error {
	if e := (*palyra.Error)(nil); errors.As(err, &e) || ctx.Err() != nil {
		return err
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "there is no journal in this file").WithCause(err)
}

// block is a run of entries that one reader checked.
type block struct {
	base           tlog.Hash // chain before, as the row before has it
	leaves, chains []tlog.Hash
	marks          []mark // checkpoints within
	problem        *Problem
	err            error
}

// mark is a checkpoint that is kept: what its row says and what its note says.
type mark struct {
	size int64
	note string
	head head
	err  error
}

// entries checks all blocks, several at a time, and takes them in order.
func (v *verifier) entries(ctx context.Context) (*Problem, error) {
	if v.extent.first < 1 {
		return problem(v.extent.first, "entries count from 1"), nil
	}
	ctx, stop := context.WithCancel(ctx)
	queue := make(chan chan block, max(min(maxReaders, runtime.GOMAXPROCS(0))-1, 1)) // and one taken from it
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.dispatch(ctx, queue)
	}()
	defer func() { stop(); drain(queue); <-done }()
	v.seen = newTree(v.head.origin)
	for next := range queue {
		b := <-next
		if p, err := v.take(ctx, b); p != nil || err != nil {
			return p, err
		}
		if v.progress != nil {
			v.progress(v.seen.size, v.extent.last)
		}
	}
	return nil, ctx.Err()
}

// dispatch starts a reader per block, as many as the queue holds.
func (v *verifier) dispatch(ctx context.Context, queue chan chan block) {
	defer close(queue)
	for from := int64(0); from < v.extent.last; from += blockSize {
		out := make(chan block, 1)
		select {
		case queue <- out:
		case <-ctx.Done():
			return
		}
		go func() { out <- v.block(ctx, from, min(from+blockSize, v.extent.last)) }()
	}
}

// drain waits for the readers that are still at work.
func drain(queue chan chan block) {
	for next := range queue {
		<-next
	}
}

// block checks the entries after from up to to.
func (v *verifier) block(ctx context.Context, from, to int64) (b block) {
	c := checker{next: from}
	if from == 0 {
		c = startChecker(v.head.origin)
		c.linked = v.head.origin != "" // without a head its name is not known
		b.base = c.chain
	}
	b.leaves = make([]tlog.Hash, 0, to-from)
	b.chains = make([]tlog.Hash, 0, to-from)
	b.err = v.read(ctx, func(tx *store.Tx) error {
		err := tx.Each(rowsQuery, []any{c.next, to}, func(scan func(...any) error) error {
			if err := c.scan(scan); err != nil {
				return err
			}
			if b.problem = c.check(); b.problem != nil {
				return errStop
			}
			if c.row.seq == from {
				b.base = c.chain
				return nil
			}
			b.leaves, b.chains = append(b.leaves, c.leaf), append(b.chains, c.chain)
			return nil
		})
		if err != nil {
			return err
		}
		if c.next <= to {
			b.problem = problem(c.next, "it is missing")
			return errStop
		}
		return errors.Join(b.readTiles(tx, from), b.readMarks(tx, from, to, v.keys))
	})
	switch e := (*palyra.Error)(nil); {
	case errors.Is(b.err, errStop):
		b.err = nil
	case errors.As(b.err, &e) && ctx.Err() == nil:
		b.problem, b.err = problem(c.next, "it cannot be read: %s", e.Text), nil
	}
	return b
}

var errStop = errors.New("stop here")

// readTiles compares the block's full tiles of the lowest level.
func (b *block) readTiles(tx *store.Tx, from int64) error {
	first := from >> tileHeight
	due := first
	err := tx.Each(tilesQuery, []any{0, first, first + int64(len(b.leaves))>>tileHeight}, func(scan func(...any) error) error {
		var n int64
		var data []byte
		if err := scan(&n, &data); err != nil {
			return err
		}
		leaves := b.leaves[(due-first)<<tileHeight:][:tileWidth]
		if n != due || len(data) != tileBytes {
			return errStop
		}
		for i, h := range splitHashes(data) {
			if h != leaves[i] {
				b.problem = problem(due<<tileHeight+int64(i)+1, "the tile that covers it has another leaf hash")
				return errStop
			}
		}
		due++
		return nil
	})
	if err != nil && !errors.Is(err, errStop) { // a check that was given up finds nothing
		return err
	}
	if b.problem == nil && due != first+int64(len(b.leaves))>>tileHeight {
		b.problem = &Problem{Seq: due<<tileHeight + 1, Through: (due + 1) << tileHeight, Why: "the tile that covers them is missing or damaged"}
		return errStop
	}
	return err
}

// readMarks reads the checkpoints within the block.
func (b *block) readMarks(tx *store.Tx, from, to int64, k keys) error {
	const query = "SELECT size, note FROM journal_checkpoints WHERE size > ? AND size <= ? ORDER BY size"
	return tx.Each(query, []any{from, to}, func(scan func(...any) error) error {
		var m mark
		if err := scan(&m.size, &m.note); err != nil {
			return err
		}
		if m.head, m.err = k.openHead(m.note); m.err == nil && m.head.size != m.size {
			m.err = fmt.Errorf("it covers %d entries", m.head.size)
		}
		b.marks = append(b.marks, m)
		return nil
	})
}
