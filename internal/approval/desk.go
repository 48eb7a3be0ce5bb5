// Package approval is the desk where people are asked, and the leases that their answers leave.
//
// Words: an approval is a question about one plan; a vote is one person's signed answer; a decision settles the
// question; a lease is what an allow permits, with explicit terms, and every run that took a question takes one use
// of a lease.
//
// Promises:
//   - A question is settled exactly once, by compare-and-set: at the first deny,
//     when policy's need is met, at its deadline, when nobody waits any more, or
//     when the answer to another leaves a lease that covers it.
//   - An answer counts only for the plan whose digest the approver echoed.
//   - Every change is journaled in the transaction that makes it.
//   - Waiters and watchers hear of a change after it is durable, never before,
//     and never miss one.
//   - Deadlines hold on two clocks (wall and time since boot); the earlier ends
//     it. Setting the wall clock back never lengthens anything, also across a
//     reboot. A clock that runs ahead ends things early: that is the safe side.
//
// What it does not do: it does not verify signatures or permissions (the door does, before a vote gets here), does
// not judge (policy does, before and after the answer), and does not render for terminals.
//
// Its words are those of docs/words.md.
package approval

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"palyra"
	"palyra/internal/hostgroup"
	"palyra/internal/store"
)

//go:embed schema
var schema embed.FS

// Schema returns the desk's tables.
func Schema() store.Schema { return store.SchemaOf("approval", schema) }

// Config wires a Desk. The first five fields are required; a zero limit is the default.
type Config struct {
	DB      *store.DB
	Journal store.Recorder
	Now     func() time.Time
	Boot    func() (bootID string, since time.Duration) // counts through suspend
	NewID   func() palyra.ID

	Mask   Mask          // nil: nothing is masked
	Judge  Judge         // nil: nobody answers for groups of hosts
	Groups hostgroup.Set // that people can answer for

	Log        *slog.Logger  // nil: silent
	Wait       time.Duration // how long a question stays open; 5 minutes
	KeepWait   time.Duration // the same for one about what a run changed, which lies on its stage; 24 hours
	DenyHold   time.Duration // how long a denied plan may not be asked again; 0: not at all
	OnceTTL    time.Duration // how long an unused once-lease lives; 15 minutes
	MaxTTL     time.Duration // longest timeboxed lease; 24 hours
	MaxPending int           // open questions per principal; 32
	DailyBytes int64         // that the questions of a principal and day keep; 256 MiB
}

// Mask masks values of secrets in what people are shown of calls.
type Mask interface {
	// Approval is a question as they see it.
	Approval(a palyra.Approval) palyra.Approval
	// Has reports whether a text has a value in it.
	Has(s string) bool
}

// Who acts when no person does.
const (
	bySystem palyra.Principal = "system:desk"
	byClock                   = palyra.SystemClock
)

// Desk keeps the questions and the leases.
type Desk struct {
	cfg   Config
	clock *clock
	bells bells
	hub   hub
	kick  chan struct{} // a deadline was added
	shown shown

	mu      sync.Mutex // guards ended and settled; a leaf lock
	ended   []func(palyra.LeaseID)
	settled []func(palyra.ApprovalID)
}

// New returns a Desk. Deadlines of an earlier boot are carried over to this
// boot's clock, so that time the machine was off or set back gives nothing away.
func New(c Config) (*Desk, error) {
	if c.DB == nil || c.Journal == nil || c.Now == nil || c.Boot == nil || c.NewID == nil {
		return nil, errors.New("approval: new: a part is missing")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Wait = orDefault(c.Wait, 5*time.Minute)
	c.KeepWait = orDefault(c.KeepWait, 24*time.Hour)
	c.OnceTTL = orDefault(c.OnceTTL, 15*time.Minute)
	c.MaxTTL = orDefault(c.MaxTTL, 24*time.Hour)
	c.MaxPending = orDefault(c.MaxPending, 32)
	c.DailyBytes = orDefault(c.DailyBytes, 256<<20)
	if c.Wait < 0 || c.KeepWait < 0 || c.DenyHold < 0 || c.OnceTTL < 0 || c.MaxTTL < minTTL || c.MaxPending < 0 || c.DailyBytes < 0 {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "approval: a limit is out of range")
	}
	d := &Desk{cfg: c, clock: &clock{now: c.Now, boot: c.Boot}, kick: make(chan struct{}, 1)}
	if d.clock.read().boot == "" {
		return nil, errors.New("approval: new: the boot has no id")
	}
	if err := c.DB.Write(context.Background(), "approval.clock", d.clock.start); err != nil {
		return nil, fmt.Errorf("approval: new: %w", err)
	}
	return d, nil
}

// waits is how long a question about a plan stays open.
func (d *Desk) waits(p palyra.Plan) time.Duration {
	if p.Effects != nil {
		return d.cfg.KeepWait
	}
	return d.cfg.Wait
}

func orDefault[T time.Duration | int | int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// OnLeaseEnd registers f, to be told of every lease that was revoked, expired or ended with its session, so that
// work running under it can be stopped. A spent lease is not told: the run that took its last use goes on. f is
// called after the end is durable, on the committing goroutine: it must be quick and must not write. Register
// before the desk is in use.
func (d *Desk) OnLeaseEnd(f func(lease palyra.LeaseID)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = append(d.ended, f)
}

func (d *Desk) tellEnded(lease palyra.LeaseID) {
	d.mu.Lock()
	told := d.ended
	d.mu.Unlock()
	for _, f := range told {
		f(lease)
	}
}

// changed tells waiters (when settled) and watchers once tx is durable.
func (d *Desk) changed(tx *store.Tx, id palyra.ApprovalID, settled bool) {
	tx.OnDone(func(committed bool) {
		if !committed {
			return
		}
		if settled {
			d.bells.ring(id)
			d.tellSettled(id)
		}
		d.hub.publish(id)
	})
}

// wakeSweeper makes the sweeper look at the deadlines again once tx is durable.
func (d *Desk) wakeSweeper(tx *store.Tx) {
	tx.OnDone(func(committed bool) {
		if committed {
			select {
			case d.kick <- struct{}{}:
			default: // it is already on its way
			}
		}
	})
}

func (d *Desk) journal(tx *store.Tx, events ...palyra.Event) error {
	for _, e := range events {
		if _, err := d.cfg.Journal.Append(tx, e); err != nil {
			return fmt.Errorf("approval: journal %s: %w", e.Kind(), err)
		}
	}
	return nil
}
