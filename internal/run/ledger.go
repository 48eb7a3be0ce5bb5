package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"palyra"
	"palyra/internal/pack"
	"palyra/internal/run/dailybytes"
	"palyra/internal/run/keptline"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

// Ledger implements gate.Ledger: a call's row, its journal lines and what the
// other parts derive from them change together or not at all.
type Ledger struct {
	db       *store.DB
	journal  store.Recorder
	projects []Projector
	tape     *tape
	// printed puts onto the tape what a call printed and is not there yet; nil: nothing is shown while it runs.
	printed func(*store.Tx, palyra.CallID) error
	// fed puts a line into the journal about what a call was given and has none yet.
	fed func(*store.Tx, palyra.CallID) error
	// envelope returns the text of a call's envelope, which is kept elsewhere; nil: outcomes are kept with it.
	envelope func(*store.Tx, palyra.CallID) ([]byte, error)
	shelf    *pack.Shelf // documents of calls to one tool are much alike
	labels   *store.Memo[origin, []string]
	budget   dailybytes.Budget
	mask     Mask
}

// Mask masks values of secrets in what is kept and shown of calls.
type Mask interface {
	// Call is a call as it is kept and shown.
	Call(c palyra.Call) palyra.Call
	// JSON is a JSON text as it is kept.
	JSON(b []byte) []byte
	// String is a text as it is kept.
	String(s string) string
}

// plainMask masks nothing.
type plainMask struct{}

func (plainMask) Call(c palyra.Call) palyra.Call { return c }
func (plainMask) JSON(b []byte) []byte           { return b }
func (plainMask) String(s string) string         { return s }

// Mask says what masks values in what is kept of calls, and on tapes.
func (l *Ledger) Mask(m Mask) { l.mask, l.tape.mask = m, m }

// NewLedger returns a Ledger over the store.
func NewLedger(db *store.DB, journal store.Recorder, projects ...Projector) *Ledger {
	return &Ledger{
		mask: plainMask{}, db: db, journal: journal, projects: projects, tape: newTape(), shelf: pack.NewShelf("call_bases"),
		labels: store.NewMemo[origin, []string](db, maxLabelled, sessionLabels, "call_labels"),
	}
}

// Budget bounds what the calls of one payer keep on a day, in bytes of their texts.
// Of calls beyond it only sizes and digests are kept. 0: no bound.
func (l *Ledger) Budget(most int64) { l.budget.Most = most }

// keptSince is what the table has of a principal's calls from a time on.
func (l *Ledger) keptSince(ctx context.Context, who palyra.Principal) func(time.Time) (int64, error) {
	return func(from time.Time) (n int64, err error) {
		err = l.db.Read(ctx, func(tx *store.Tx) error {
			return tx.Get(`SELECT coalesce(sum(length(doc) + coalesce(length(outcome), 0)), 0) FROM calls WHERE principal = ? AND proposed_at >= ?`,
				[]any{string(who), store.Nanos(from)}, &n)
		})
		return n, err
	}
}

// Envelopes says where the envelopes of finished calls are kept, by the same
// transaction that records the end: outcomes are then kept without.
func (l *Ledger) Envelopes(of func(*store.Tx, palyra.CallID) ([]byte, error)) { l.envelope = of }

// Record implements gate.Ledger. The step it is known by in fault tests is the kind of its last event.
func (l *Ledger) Record(ctx context.Context, c *palyra.Call, events ...palyra.Event) (palyra.Position, error) {
	if len(events) == 0 {
		return palyra.Position{}, errors.New("run: record: no event")
	}
	row, err := l.encode(ctx, c)
	if err != nil {
		return palyra.Position{}, err
	}
	var pos palyra.Position
	err = l.db.Write(ctx, events[len(events)-1].Kind(), func(tx *store.Tx) error {
		if err := row.save(tx, c); err != nil {
			return err
		}
		for _, e := range row.held(events) {
			if pos, err = l.append(tx, c, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return palyra.Position{}, fmt.Errorf("run: record: %w", err)
	}
	c.Stored = c.State
	return pos, nil
}

func (l *Ledger) append(tx *store.Tx, c *palyra.Call, e palyra.Event) (palyra.Position, error) {
	if l.fed != nil && tapeline.Ends(e) {
		if err := l.fed(tx, c.ID); err != nil {
			return palyra.Position{}, err
		}
	}
	pos, err := l.journal.Append(tx, e)
	if err != nil {
		return pos, err
	}
	for _, p := range l.projects {
		if err := p(tx, c, e); err != nil {
			return pos, err
		}
	}
	if err := l.label(tx, c, e); err != nil {
		return pos, err
	}
	if c.Proposal.Run == "" {
		return pos, nil
	}
	return pos, l.record(tx, c, e, pos)
}

// maxKept bounds what an ended call keeps of its arguments and its diff, so that
// large calls do not fill the disk for ever.
const maxKept = 64 << 10

// row is a call as its table holds it, and what its journal line says of that.
type row struct {
	doc     *pack.Packed // nil: it stands as it is
	outcome *pack.Packed // nil: there is none yet
	kept    palyra.Kept
	body    palyra.Digest // of the outcome
}

// held returns the events with what is kept of the call in the last one that has a place for it.
func (r row) held(events []palyra.Event) []palyra.Event {
	out := slices.Clone(events)
	for i, e := range slices.Backward(out) {
		if with, ok := keptline.With(r.kept, e, r.body); ok {
			out[i] = with
			break
		}
	}
	return out
}

// encode prepares the row outside the transaction. Arguments that were never
// admitted are not kept: the journal has their size and digest.
func (l *Ledger) encode(ctx context.Context, c *palyra.Call) (row, error) {
	over, err := l.budget.Over(c, l.keptSince(ctx, c.Proposal.Principal))
	if err != nil {
		return row{}, err
	}
	// an ended call's document stands as it is
	if c.Stored != "" && !c.Finished.IsZero() && c.Keep == nil && len(c.Proposal.Arguments) <= maxKept && !over {
		return l.encodeOutcome(c, row{}, over)
	}
	keep := *c
	keep.Outcome = nil
	keep = l.mask.Call(keep)
	if c.Tool.Name == "" {
		keep.Proposal.Arguments = json.RawMessage("null")
	}
	if !c.Finished.IsZero() && len(c.Proposal.Arguments) > maxKept { // no longer needed to run it; the journal has the digest
		keep.Proposal.Arguments, keep.Plan.Arguments = json.RawMessage("null"), json.RawMessage("null")
		keep.Detail.Diff = palyra.Clip(keep.Detail.Diff, maxKept)
	}
	if over && c.State != palyra.Pending && c.State != palyra.Settling { // an open question goes on with all of it
		keep = dailybytes.Outlined(keep)
	}
	if len(keep.Plan.Arguments) == 0 {
		keep.Plan.Arguments = json.RawMessage("null")
	}
	keep.Tool.InputSchema = json.RawMessage("null") // the catalog has it
	keep.Proposal.Tool = palyra.Clip(c.Proposal.Tool, 512)
	doc, err := keep.Document()
	if err != nil {
		return row{}, fmt.Errorf("run: encode call: %w", err)
	}
	l.budget.Spend(c, len(doc))
	packed := l.shelf.Pack(alikeAs(c), doc)
	return l.encodeOutcome(c, row{doc: &packed, kept: palyra.Kept{Document: palyra.SumBytes(doc)}}, over)
}

// alikeAs says which calls a call is probably like.
func alikeAs(c *palyra.Call) string { return string(c.Tool.Name) + " " + string(c.Proposal.Principal) }

func (l *Ledger) encodeOutcome(c *palyra.Call, r row, over bool) (row, error) {
	if c.Outcome == nil {
		return r, nil
	}
	out := *c.Outcome
	text, err := out.Body()
	if err != nil {
		return row{}, fmt.Errorf("run: encode outcome: %w", err)
	}
	if r.body = palyra.SumBytes(text); over {
		out = dailybytes.WithoutOutput(out)
		if text, err = out.Body(); err != nil {
			return row{}, fmt.Errorf("run: encode outcome: %w", err)
		}
		if sum := palyra.SumBytes(text); sum != r.body {
			r.kept.Outcome = sum
		}
	}
	if l.envelope == nil || out.Attestation == nil { // otherwise the body is kept, which has no brace at its end
		if text, err = out.Marshal(); err != nil {
			return row{}, fmt.Errorf("run: encode outcome: %w", err)
		}
	}
	l.budget.Spend(c, len(text))
	packed := l.shelf.Pack("outcome "+alikeAs(c), text)
	r.outcome = &packed
	return r, nil
}

const (
	insertCall = `INSERT INTO calls (id, session, run, parent, client_key, principal, tool, state, approval, input, proposed_at, finished_at, doc, outcome, origin)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`
	updateCall = `UPDATE calls SET state=?, approval=?, doc=coalesce(?, doc), outcome=? WHERE id=? AND state=?`
	endCall    = `UPDATE calls SET state=?, finished_at=?, outcome=?, doc=coalesce(?, doc) WHERE id=? AND state=?`
)

// save inserts the call, or updates it if the store has it in the state its holder believes. That check is what
// keeps a call from running twice: whoever comes second, with a stale copy, gets a Conflict.
func (r row) save(tx *store.Tx, c *palyra.Call) error {
	doc, outcome, err := r.blobs(tx) // NULL leaves the document as it is
	if err != nil {
		return err
	}
	var n int64
	switch {
	case c.Stored == "":
		n, err = insert(tx, c, doc, outcome)
	case c.Stored.Ended():
	case c.Finished.IsZero():
		n, err = tx.Exec(updateCall, string(c.State), string(c.Approval), doc, outcome, string(c.ID), string(c.Stored))
	default:
		n, err = tx.Exec(endCall, string(c.State), store.Nanos(c.Finished), outcome, doc, string(c.ID), string(c.Stored))
	}
	if err != nil || n > 0 {
		return err
	}
	var was string
	if err := tx.Get(`SELECT state FROM calls WHERE id=?`, []any{string(c.ID)}, &was); err != nil {
		return err
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "call %s is %s already", c.ID, was)
}

// blobs returns what the row has, as it is stored; nil where it has nothing.
func (r row) blobs(tx *store.Tx) (doc, outcome any, err error) {
	for _, b := range []struct {
		from *pack.Packed
		to   *any
	}{{r.doc, &doc}, {r.outcome, &outcome}} {
		if b.from == nil {
			continue
		}
		if *b.to, err = b.from.Blob(tx); err != nil {
			return nil, nil, err
		}
	}
	return doc, outcome, nil
}

// insert adds the call to its table and its session; 0: it is there.
func insert(tx *store.Tx, c *palyra.Call, doc, outcome any) (int64, error) {
	p := c.Proposal
	var key any
	if p.Key != "" {
		key = p.Key
	}
	added, err := tx.Exec(insertCall, string(c.ID), string(p.Session), string(p.Run), string(p.Parent), key, string(p.Principal),
		palyra.Clip(p.Tool, 512), string(c.State),
		string(c.Approval), string(c.Input), store.Nanos(c.Proposed), store.Nanos(c.Finished), doc, outcome, string(p.Origin))
	if err != nil {
		return 0, fmt.Errorf("run: insert call: %w", err)
	}
	if added == 0 {
		return 0, nil
	}
	n, err := tx.Exec(`UPDATE sessions SET used_at=?, calls=calls+1 WHERE id=? AND closed_at=0`, store.Nanos(c.Proposed), string(p.Session))
	if err == nil && n == 0 {
		return 0, palyra.Errorf(palyra.Conflict, palyra.ReasonSessionClosed, "session %s was closed", p.Session).
			WithRemedy("call again without it")
	}
	return added, err
}

const callColumns = `state, approval, input, finished_at, doc, outcome`

// scanCall reads a call back. Columns win over the document: an ended call's
// document is the one it was granted with.
func (l *Ledger) scanCall(tx *store.Tx, scan func(...any) error) (*palyra.Call, error) {
	c, _, err := l.scanSized(tx, scan, l.envelope)
	return c, err
}

// scanSized is scanCall that also says how many bytes it read. Without envelope an
// outcome that is kept without lacks it.
func (l *Ledger) scanSized(tx *store.Tx, scan func(...any) error, envelope func(*store.Tx, palyra.CallID) ([]byte, error)) (*palyra.Call,
	int, error,
) {
	var state, approval, input string
	var finished int64
	var doc, outcome []byte
	if err := scan(&state, &approval, &input, &finished, &doc, &outcome); err != nil {
		return nil, 0, err
	}
	doc, outcome, err := l.texts(tx, doc, outcome)
	if err != nil {
		return nil, 0, err
	}
	c := new(palyra.Call)
	if err := json.Unmarshal(doc, c); err != nil {
		return nil, 0, fmt.Errorf("run: decode call: %w", err)
	}
	c.State, c.Approval, c.Input, c.Finished = palyra.State(state), palyra.ApprovalID(approval), palyra.Digest(input), store.Moment(finished)
	c.Stored = c.State
	c.Plan.Detail = c.Detail
	if len(outcome) == 0 {
		return c, len(doc), nil
	}
	if outcome, err = whole(tx, c.ID, outcome, envelope); err != nil {
		return nil, 0, err
	}
	c.Outcome = new(palyra.Outcome)
	if err := json.Unmarshal(outcome, c.Outcome); err != nil {
		return nil, 0, fmt.Errorf("run: decode outcome: %w", err)
	}
	c.Grant = c.Outcome.GrantID
	c.Granted.Seq = c.Outcome.JournalPosition
	return c, len(doc) + len(outcome), nil
}

// whole puts the envelope behind the body of an outcome that is kept without.
func whole(tx *store.Tx, id palyra.CallID, text []byte, envelope func(*store.Tx, palyra.CallID) ([]byte, error)) ([]byte, error) {
	if text[len(text)-1] == '}' {
		return text, nil
	}
	raw := []byte("null")
	if envelope != nil {
		var err error
		if raw, err = envelope(tx, id); err != nil {
			return nil, fmt.Errorf("run: read outcome: %w", err)
		}
	}
	return slices.Concat(text, []byte(palyra.AttestationKey), raw, []byte("}")), nil
}

// texts unpacks what a row has.
func (l *Ledger) texts(tx *store.Tx, doc, outcome []byte) ([]byte, []byte, error) {
	d, err1 := l.shelf.Text(tx, doc)
	o, err2 := l.shelf.Text(tx, outcome)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("run: decode call: %w", err)
	}
	return d, o, nil
}

// Get returns a call by its id.
func (l *Ledger) Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error) {
	var c *palyra.Call
	err := l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT `+callColumns+` FROM calls WHERE id=?`, []any{string(id)}, func(scan func(...any) error) (err error) {
			c, err = l.scanCall(tx, scan)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("run: get call: %w", err)
	}
	if c == nil {
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no call %s", palyra.Clip(string(id), 64)).
			WithRemedy("see 'palyra calls list'")
	}
	return c, nil
}

// byKey returns the call of a session with the client's key, or nil.
func (l *Ledger) byKey(ctx context.Context, session palyra.SessionID, key string) (*palyra.Call, error) {
	calls, err := l.query(ctx, `SELECT `+callColumns+` FROM calls WHERE session=? AND client_key=?`, string(session), key)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	return calls[0], nil
}

func (l *Ledger) query(ctx context.Context, q string, args ...any) ([]*palyra.Call, error) {
	var calls []*palyra.Call
	err := l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(q, args, func(scan func(...any) error) error {
			c, err := l.scanCall(tx, scan)
			calls = append(calls, c)
			return err
		})
	})
	return calls, err
}

// open returns the calls that had not ended.
func (l *Ledger) open(ctx context.Context, states ...palyra.State) ([]*palyra.Call, error) {
	var all []*palyra.Call
	for _, s := range states {
		calls, err := l.query(ctx, `SELECT `+callColumns+` FROM calls WHERE state=?`, string(s))
		if err != nil {
			return nil, err
		}
		all = append(all, calls...)
	}
	return all, nil
}

// openOf returns the calls of a run that have not ended.
func (l *Ledger) openOf(ctx context.Context, run palyra.RunID) ([]palyra.CallID, error) {
	var ids []palyra.CallID
	err := l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT id FROM calls WHERE run=? AND finished_at=0`, []any{string(run)}, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, palyra.CallID(id))
			return err
		})
	})
	return ids, err
}

// asked returns the approvals that calls wait for: pending ones, and those whose changes are held.
func (l *Ledger) asked(ctx context.Context) ([]palyra.ApprovalID, error) {
	var ids []palyra.ApprovalID
	settling, err := l.open(ctx, palyra.Settling)
	if err != nil {
		return nil, err
	}
	for _, c := range settling {
		if heldBack(c) {
			ids = append(ids, c.Keep.Approval)
		}
	}
	err = l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT DISTINCT approval FROM calls WHERE state='pending'`, nil, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, palyra.ApprovalID(id))
			return err
		})
	})
	return ids, err
}

// waitingFor returns the calls that wait for an approval.
func (l *Ledger) waitingFor(ctx context.Context, approval palyra.ApprovalID) ([]*palyra.Call, error) {
	settling, err := l.open(ctx, palyra.Settling)
	if err != nil {
		return nil, err
	}
	settling = slices.DeleteFunc(settling, func(c *palyra.Call) bool { return !heldBack(c) || c.Keep.Approval != approval })
	pending, err := l.query(ctx, `SELECT `+callColumns+` FROM calls WHERE approval=? AND state='pending'`, string(approval))
	return append(settling, pending...), err
}

// heldBack reports whether the changes of a call lie on their stage until somebody has answered.
func heldBack(c *palyra.Call) bool {
	return c.State == palyra.Settling && c.Keep != nil && c.Keep.Approval != ""
}
