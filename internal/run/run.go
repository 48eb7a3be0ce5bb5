// Package run keeps calls and runs: the ledger behind the gate, the calls under way, the runs they belong to with
// their tapes, and what becomes of them after a crash.
//
// A call is one proposal on its way through the gate; a run is the turns of an agent and the calls they propose; a
// tape is what happened in a run, in order. Calls and runs are owned by the server: they live on when their client
// goes away, a repeat with the same key finds the first one, and a cancel stops them.
// What a tape tells became durable together with its journal line, its sequence numbers have no gaps, and any
// number may read it at their own pace. After a restart a run is driven again from its beginning and meets the
// calls it made by their keys, so that nothing runs twice.
//
// The package does not judge, ask or run anything itself, the gate does; nor does it know what drives a run: a
// Driver is passed in.
//
// Its words are those of docs/words.md.
package run

import (
	"context"
	"embed"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/store"
)

//go:embed schema
var schema embed.FS

// Schema returns the package's tables.
func Schema() store.Schema { return store.SchemaOf("run", schema) }

// Sessions finds the session of a call, and closes those of a room.
type Sessions interface {
	Resolve(ctx context.Context, p palyra.Proposal) (palyra.Session, error)
	CloseRoom(ctx context.Context, room palyra.CallID) error
}

// plain reports whether a text is one line.
func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\n\r") }

// Projector changes a part's tables for an event, in the transaction that
// journals it. Its error undoes the whole record.
type Projector func(tx *store.Tx, c *palyra.Call, e palyra.Event) error
