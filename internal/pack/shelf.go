package pack

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"sync"
)

// Tx is what a Shelf needs of a transaction.
type Tx interface {
	Get(query string, args []any, dest ...any) error
	Exec(query string, args ...any) (int64, error)
	OnDone(f func(committed bool))
}

// Limits of a Shelf.
const (
	maxBase  = 64 << 10 // longest text that is a base
	maxKinds = 64       // kinds of which the last base is remembered
	maxRead  = 64       // bases that are held for reading
	maxPause = 64       // texts between two looks for a better base
)

// Shelf packs texts of which many are alike, each against a base: an earlier one of its kind, which is kept in a
// table once. The table has an id and a text; its rows are never changed. A base is kept when the first text is
// packed against it, in the same transaction, so that texts with nothing in common cost nothing.
type Shelf struct {
	table string

	mu    sync.Mutex
	kinds map[string]bases
	read  map[int64]*base
}

// bases are those of a kind: the one that its texts are packed against, and a text for which that was not good enough,
// which takes its place when it is much better for the text after it. Where it is not, which costs more than packing,
// some texts pass before the next one is tried, and each time more of them.
type bases struct {
	base, next  *held
	wait, pause int // texts that pass now, and after the next try in vain
}

// held is a base, or a text that may become one.
type held struct {
	*base
	text    []byte
	id      int64 // 0: not kept yet
	claimed bool  // a transaction is about to keep it
}

// NewShelf returns a Shelf over the table of that name.
func NewShelf(table string) *Shelf {
	return &Shelf{table: table, kinds: map[string]bases{}, read: map[int64]*base{}}
}

// Packed is a text that is packed, but for the number of its base.
type Packed struct {
	shelf *Shelf
	text  []byte
	delta []byte // against the base
	base  *held  // nil: it is packed by itself
}

// Pack packs a text, which must not change any more. The kind says which texts it is probably like.
func (s *Shelf) Pack(kind string, text []byte) Packed {
	p := Packed{shelf: s, text: text}
	if len(text) > maxBase || len(text) == 0 || packed(text) {
		return p
	}
	s.mu.Lock()
	k := s.kinds[kind]
	s.mu.Unlock()
	worst := len(text) / 2 // a base that saves less is not worth its room
	if p.packAgainst(k.base, worst); p.base != nil && len(p.delta) <= len(text)/8 {
		return p
	}
	k = p.look(k, worst)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(kind, k)
	return p
}

// look tries another base for a text that its kind's own is not good enough for.
func (p *Packed) look(k bases, worst int) bases {
	was := p.base
	if was != nil && k.wait > 0 {
		k.wait--
		return k
	}
	if was != nil {
		worst = len(p.delta) / 2
	}
	switch p.packAgainst(k.next, worst); {
	case p.base != was:
		return bases{base: k.next}
	case was != nil && k.next != nil:
		k.pause = min(max(1, 2*k.pause), maxPause)
		k.next, k.wait = nil, k.pause
	default:
		k.next = &held{base: newBase(p.text).index(), text: p.text}
	}
	return k
}

// packAgainst packs the text against a base, if that makes it small enough.
func (p *Packed) packAgainst(b *held, worst int) {
	if b == nil {
		return
	}
	if d := b.pack(p.text); len(d) <= worst {
		p.base, p.delta = b, d
	}
}

// remember keeps the bases of a kind in mind, in place of any other if there are many.
func (s *Shelf) remember(kind string, b bases) {
	if _, ok := s.kinds[kind]; !ok && len(s.kinds) >= maxKinds {
		for k := range s.kinds {
			delete(s.kinds, k)
			break
		}
	}
	s.kinds[kind] = b
}

// Blob returns what is to be stored, in the transaction that stores it.
func (p Packed) Blob(tx Tx) ([]byte, error) {
	if p.delta == nil {
		return Pack(p.text), nil
	}
	s, b := p.shelf, p.base
	id, mine := b.claim(&s.mu)
	if id == 0 && !mine { // another transaction is keeping it
		return Pack(p.text), nil
	}
	if mine {
		tx.OnDone(func(committed bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if b.claimed = false; committed {
				b.id = id
			}
		})
		if err := tx.Get(`SELECT COALESCE(MAX(id), 0) + 1 FROM `+s.table, nil, &id); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(`INSERT INTO `+s.table+` (id, text) VALUES (?, ?)`, id, Pack(b.text)); err != nil {
			return nil, err
		}
	}
	return append(binary.AppendUvarint([]byte{lightVersion}, uint64(id)), p.delta...), nil
}

// claim returns the number of a base, or says that the caller is to keep it.
func (b *held) claim(mu *sync.Mutex) (id int64, mine bool) {
	mu.Lock()
	defer mu.Unlock()
	if b.id != 0 || b.claimed {
		return b.id, false
	}
	b.claimed = true
	return 0, true
}

// Text returns the text of what was stored.
func (s *Shelf) Text(tx Tx, b []byte) ([]byte, error) {
	if !packed(b) || b[0] == version {
		return Text(b)
	}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > 1<<62 {
		return nil, errDamaged
	}
	id, rest := int64(n), b[1+size:]
	s.mu.Lock()
	known := s.read[id]
	s.mu.Unlock()
	if known != nil {
		if text, err := known.text(b[0], rest); err == nil {
			return text, nil
		}
	}
	var packed []byte
	if err := tx.Get(`SELECT text FROM `+s.table+` WHERE id = ?`, []any{id}, &packed); errors.Is(err, sql.ErrNoRows) {
		return nil, errBase
	} else if err != nil {
		return nil, err
	}
	text, err := Text(packed)
	if err != nil {
		return nil, err
	}
	fresh := newBase(text)
	if text, err = fresh.text(b[0], rest); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read) >= maxRead {
		clear(s.read)
	}
	s.read[id] = fresh
	return text, nil
}
