package journal

import (
	"bytes"
	"database/sql"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"palyra/internal/pack"
)

const (
	rowsQuery = "SELECT seq, time, kind, call_id, leaf, chain, entry FROM journal_entries WHERE seq >= ? AND seq <= ? ORDER BY seq"
	// A level's tiles, those from the first place up to the second, exclusive.
	tilesQuery = "SELECT n, hashes FROM journal_tiles WHERE level = ? AND n >= ? AND n < ? ORDER BY n"
)

// row is a row of entries, valid until the next one is scanned.
type row struct {
	seq, time                      int64
	kind, call, leaf, chain, entry sql.RawBytes
}

// checker looks at rows one after the other: each entry against its columns, its hash and the chain.
type checker struct {
	next   int64     // the entry due
	linked bool      // chain is that of the entry before; else the next row's is taken on trust
	chain  tlog.Hash // of the entry last seen
	leaf   tlog.Hash // of the entry last seen
	row    row

	text  []byte // of the row's entry
	buf   []byte
	clock []byte
}

// startChecker begins before the first entry of a journal.
func startChecker(origin string) checker {
	return checker{next: 1, linked: true, chain: chainStart(origin)}
}

func (c *checker) scan(scan func(...any) error) error {
	r := &c.row
	if err := scan(&r.seq, &r.time, &r.kind, &r.call, &r.leaf, &r.chain, &r.entry); err != nil {
		return err
	}
	if text, err := pack.AppendLine(c.text[:0], r.entry); err == nil { // else it stays as it is, and has another hash
		c.text, r.entry = text, text
	}
	return nil
}

// check looks at the row last scanned.
func (c *checker) check() *Problem {
	r := &c.row
	switch {
	case r.seq > c.next:
		return problem(c.next, "it is missing; the next one there is %d", r.seq)
	case r.seq < c.next:
		return problem(c.next, "entry %d stands in its place", r.seq)
	}
	leaf := leafHash(r.entry, &c.buf)
	if string(r.leaf) != string(leaf[:]) {
		return problem(c.next, "its bytes do not have its leaf hash")
	}
	f, err := parseEntry(r.entry)
	if err != nil {
		return problem(c.next, "%v", err)
	}
	if why := c.compare(f); why != "" {
		return problem(c.next, "%s", why)
	}
	if chain := link(c.chain, leaf); c.linked && string(r.chain) != string(chain[:]) {
		return problem(c.next, "its chain hash does not follow from the one before")
	}
	if len(r.chain) != tlog.HashSize {
		return problem(c.next, "its chain hash is not one")
	}
	c.chain = tlog.Hash(r.chain)
	c.leaf, c.linked = leaf, true
	c.next++
	return nil
}

// compare holds the entry against the columns beside it.
func (c *checker) compare(f fields) string {
	r := &c.row
	c.clock = time.Unix(0, r.time).UTC().AppendFormat(c.clock[:0], time.RFC3339Nano)
	switch {
	case f.seq != r.seq:
		return "it says that it is another entry"
	case !bytes.Equal(f.kind, r.kind):
		return "its kind differs from its row's"
	case !bytes.Equal(f.call, r.call):
		return "its call differs from its row's"
	case !bytes.Equal(f.time, c.clock):
		return "its time differs from its row's"
	}
	return ""
}
