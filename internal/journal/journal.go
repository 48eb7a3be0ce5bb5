package journal

import (
	"context"
	"embed"
	"errors"
	"sync"
	"time"

	"palyra"
	"palyra/internal/store"
)

//go:embed schema
var schema embed.FS

// Schema returns the journal's tables.
func Schema() store.Schema { return store.SchemaOf("journal", schema) }

// Config wires a Journal.
type Config struct {
	DB     *store.DB
	Signer Signer
	// Keys are the verifier lines of keys that signed before; the signer's own need not stand among them.
	Keys []string
	// Origin names the journal; empty: the signer's name. They must be equal.
	Origin string
	Now    func() time.Time // nil: time.Now
}

// Journal is an open journal. There is one per store.
type Journal struct {
	db     *store.DB
	now    func() time.Time
	origin string
	kinds  catalogue
	before time.Time // when the last entry was written that an earlier daemon left

	// The group under way. Touched only inside the store's transactions, which come one after the other.
	tip     tree
	pending []line // not yet inserted
	tiles   []tile
	kept    int64     // size of the last checkpoint kept
	keptAt  time.Time // and when

	mu     sync.Mutex // a leaf lock over the fields below
	signer noteSigner
	keys   keys
	state  state
	wake   chan struct{} // closed at the next commit
	closed bool
}

// state is what is committed.
type state struct {
	tree tree
	head head
}

// New opens the journal, checks its tail against the signed head, and joins the store's commits. It must come
// before the store's first Write. A journal that does not match its head is refused: nothing may be added to a
// record that was changed.
func New(ctx context.Context, c Config) (*Journal, error) {
	if c.DB == nil {
		return nil, errors.New("journal: new: no store")
	}
	signer, verifier, err := checkSigner(c.Signer)
	if err != nil {
		return nil, err
	}
	if c.Origin != "" && c.Origin != signer.Name() {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "journal: the key is named %q, the journal %q", signer.Name(),
			c.Origin)
	}
	known, err := parseKeys(append([]string{c.Signer.Verifier()}, c.Keys...))
	if err != nil {
		return nil, err
	}
	j := &Journal{
		db: c.DB, now: c.Now, origin: signer.Name(), kinds: newCatalogue(),
		signer: signer, keys: known.withKey(verifier), wake: make(chan struct{}),
	}
	if j.now == nil {
		j.now = time.Now
	}
	if err := j.load(ctx); err != nil {
		return nil, err
	}
	j.before, _ = time.Parse(time.RFC3339Nano, j.state.head.time) // a head that was read has a time
	c.DB.Use(store.GroupHook{Begin: j.begin, Commit: j.commit})
	return j, nil
}

// SetSigner replaces the signing key from the next commit on. What the old key
// signed stays valid. It may be called from a store's OnDone.
func (j *Journal) SetSigner(s Signer) error {
	signer, verifier, err := checkSigner(s)
	if err != nil {
		return err
	}
	if signer.Name() != j.origin {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "journal: the key is named %q, the journal %q", signer.Name(), j.origin)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.signer, j.keys = signer, j.keys.withKey(verifier)
	return nil
}

func (j *Journal) signing() noteSigner {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.signer
}

func (j *Journal) committed() (state, keys) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state, j.keys
}

// Head returns the signed head. An empty journal's is signed anew at each start and stands nowhere else.
func (j *Journal) Head(ctx context.Context) (Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return Checkpoint{}, err
	}
	s, _ := j.committed()
	h, err := j.checkpointed(s.head)
	return h.checkpoint(), err
}

// Close keeps the head as a checkpoint and ends the watches. It does not close the store.
func (j *Journal) Close(ctx context.Context) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	close(j.wake)
	j.mu.Unlock()
	return j.db.Write(ctx, "journal.checkpoint", func(tx *store.Tx) error {
		s, _ := j.committed()
		if s.head.size == j.kept {
			return nil
		}
		h, err := j.keep(tx, s.head)
		if err != nil {
			return err
		}
		if h, err = j.sign(h); err != nil || h.size == 0 {
			return err
		}
		tx.OnDone(func(committed bool) {
			if committed {
				s.head = h
				j.publish(s)
			}
		})
		return j.setHead(tx, h, h.size)
	})
}
