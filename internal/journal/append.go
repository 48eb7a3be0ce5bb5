package journal

import (
	"context"
	"strings"
	"time"

	"palyra"
	"palyra/internal/pack"
	"palyra/internal/store"
)

const (
	keepEvery = 256         // entries between two checkpoints that are kept
	keepAfter = time.Minute // or this time, whichever comes first
)

// Append adds an event inside a transaction: it becomes durable with the rows that tx changes, or not at all. The
// position is final once the transaction is committed; an undone one is given to the next entry.
func (j *Journal) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	if err := tx.Err(); err != nil { // a transaction that failed has no position to give
		return palyra.Position{}, err
	}
	d, err := j.kinds.draft(e)
	if err != nil {
		return palyra.Position{}, err
	}
	return j.add(tx, d), nil
}

// Record appends events in a transaction of their own and returns the position of the last.
func (j *Journal) Record(ctx context.Context, events ...palyra.Event) (palyra.Position, error) {
	if len(events) == 0 {
		return palyra.Position{}, palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "journal: nothing to record")
	}
	drafts := make([]draft, len(events))
	for i, e := range events { // here, not in the transaction: others wait for that
		d, err := j.kinds.draft(e)
		if err != nil {
			return palyra.Position{}, err
		}
		drafts[i] = d
	}
	var pos palyra.Position
	err := j.db.Write(ctx, drafts[0].kind, func(tx *store.Tx) error {
		for _, d := range drafts {
			pos = j.add(tx, d)
		}
		return nil
	})
	if err != nil {
		return palyra.Position{}, err
	}
	return pos, nil
}

// add gives a draft its place. Nothing is inserted yet: the rows of a whole group go in together just before its
// commit. Undoing takes the tree back to the value it had; the store undoes in reverse order, so each step back is
// right whether one write of a group fails or all of them.
func (j *Journal) add(tx *store.Tx, d draft) palyra.Position {
	was, lines, tiles := j.tip, len(j.pending), len(j.tiles)
	tx.OnDone(func(committed bool) {
		if !committed {
			j.tip, j.pending, j.tiles = was, j.pending[:lines], j.tiles[:tiles]
		}
	})
	l := d.lineAt(j.tip.size+1, j.now())
	next, full := j.tip.append(l.leaf)
	l.chain = next.chain
	j.tip = next
	j.pending = append(j.pending, l)
	j.tiles = append(j.tiles, full...)
	return palyra.Position{Seq: l.seq, Leaf: digest(l.leaf)}
}

// begin starts a group from the committed state, whether or not the last group was committed.
func (j *Journal) begin(*store.Tx) error {
	s, _ := j.committed()
	j.tip, j.pending, j.tiles = s.tree, j.pending[:0], j.tiles[:0]
	return nil
}

// commit writes a group's entries, tiles and signed head, just before the
// store commits. Watchers are told after that.
func (j *Journal) commit(tx *store.Tx) error {
	if len(j.pending) == 0 {
		return nil
	}
	now := j.now()
	s, _ := j.committed()
	h := j.unsigned(j.tip, now, s.head.kept)
	if err := j.insert(tx); err != nil {
		return err
	}
	if h.size-j.kept >= keepEvery || now.Sub(j.keptAt) >= keepAfter {
		var err error
		if h, err = j.keep(tx, h); err != nil {
			return err
		}
	}
	h, err := j.sign(h)
	if err != nil {
		return err
	}
	if err := j.setHead(tx, h, j.pending[0].seq-1); err != nil {
		return err
	}
	next := state{tree: j.tip, head: h}
	tx.OnDone(func(committed bool) {
		if committed {
			j.publish(next)
		}
	})
	return nil
}

// unsigned is the head of a tree.
func (j *Journal) unsigned(t tree, now time.Time, k keptCheckpoints) head {
	return head{origin: j.origin, size: t.size, root: t.root(), chain: t.chain, time: palyra.Time(now), kept: k}
}

// sign signs a head in the form that only the head row has.
func (j *Journal) sign(h head) (head, error) {
	var err error
	h.tip, h.key, err = j.signed(h.tipText())
	return h, err
}

// checkpointed returns a head with its signed checkpoint, the form that is kept
// and handed out. It is made when it is wanted, not at every commit.
func (j *Journal) checkpointed(h head) (head, error) {
	var err error
	h.note, h.key, err = j.signed(h.text())
	return h, err
}

func (j *Journal) signed(text string) (msg, key string, err error) {
	s := j.signing()
	if msg, err = signText(s, text); err != nil {
		return "", "", palyra.Errorf(palyra.Unavailable, palyra.ReasonJournalUnavailable, "the journal cannot be signed").
			WithRemedy("check the daemon's signing key").WithCause(err)
	}
	return msg, s.Verifier()[:len(j.origin)+len("+00000000")], nil
}

// setHead moves the head row from the size it had. Another size there means
// that someone else writes to this journal.
func (j *Journal) setHead(tx *store.Tx, h head, was int64) error {
	args := []any{h.size, h.root[:], h.chain[:], h.tip}
	if was == 0 {
		_, err := tx.Exec("INSERT INTO journal_head (size, root, chain, note, id) VALUES (?, ?, ?, ?, 1)", args...)
		return err
	}
	n, err := tx.Exec("UPDATE journal_head SET size = ?, root = ?, chain = ?, note = ? WHERE id = 1 AND size = ?", append(args, was)...)
	if err == nil && n != 1 {
		err = palyra.Errorf(palyra.Unavailable, palyra.ReasonSecondDaemon, "the journal's head is not where this daemon left it").
			WithRemedy("make sure that only one daemon uses this state, then run 'palyra journal verify'")
	}
	return err
}

// keep adds a head to the checkpoints and returns the head that is to be signed, which covers them. What it
// remembers is undone with the transaction.
func (j *Journal) keep(tx *store.Tx, h head) (head, error) {
	h, err := j.checkpointed(h)
	if err != nil {
		return head{}, err
	}
	was, at := j.kept, j.keptAt
	tx.OnDone(func(committed bool) {
		if !committed {
			j.kept, j.keptAt = was, at
		}
	})
	j.kept, j.keptAt = h.size, j.now()
	_, err = tx.Exec("INSERT INTO journal_checkpoints (size, note) VALUES (?, ?)", h.size, h.note)
	h.kept, h.note = h.kept.withNote(h.note), ""
	return h, err
}

// publish makes a committed state the current one and wakes the watchers, all by one closed channel.
func (j *Journal) publish(s state) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state = s
	if !j.closed {
		close(j.wake)
		j.wake = make(chan struct{})
	}
}

// Rows go in by as few statements as there are sizes here: the statement costs more than the row.
var insertSizes = []int{32, 8, 1}

func insertQuery(rows int) string {
	return "INSERT INTO journal_entries (seq, time, kind, call_id, leaf, chain, entry) VALUES (?, ?, ?, ?, ?, ?, ?)" +
		strings.Repeat(", (?, ?, ?, ?, ?, ?, ?)", rows-1)
}

var insertQueries = func() (q []string) {
	for _, n := range insertSizes {
		q = append(q, insertQuery(n))
	}
	return q
}()

func (j *Journal) insert(tx *store.Tx) error {
	rest := j.pending
	for i, size := range insertSizes {
		for len(rest) >= size {
			args := make([]any, 0, size*7)
			for k := range rest[:size] {
				l := &rest[k]
				var call any
				if l.call != "" {
					call = l.call
				}
				args = append(args, l.seq, l.time, l.kind, call, l.leaf[:], l.chain[:], pack.Line(l.entry))
			}
			if _, err := tx.Exec(insertQueries[i], args...); err != nil {
				return err
			}
			rest = rest[size:]
		}
	}
	for _, t := range j.tiles {
		if _, err := tx.Exec("INSERT INTO journal_tiles (level, n, hashes) VALUES (?, ?, ?)", t.level, t.n, t.data); err != nil {
			return err
		}
	}
	return nil
}
