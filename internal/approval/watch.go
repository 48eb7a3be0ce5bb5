package approval

import (
	"context"
	"sync"

	"palyra"
	"palyra/internal/store"
)

// ChangeKind says what a Change means.
type ChangeKind string

// The kinds of change, in the order in which a watcher first meets them.
const (
	ChangeOpen    ChangeKind = "open"    // an approval of the snapshot: it is pending
	ChangeReady   ChangeKind = "ready"   // the snapshot is complete; from here on it is live
	ChangeUpdated ChangeKind = "updated" // an approval is new, was voted on, joined, left or settled
	ChangeLagged  ChangeKind = "lagged"  // too slow: forget what you know, a new snapshot follows
)

// Change is one thing a watcher is told.
type Change struct {
	Kind     ChangeKind
	Approval palyra.Approval // with ChangeOpen and ChangeUpdated
}

// watchQueue bounds how many changed approvals a slow watcher may be behind.
const watchQueue = 1024

// Watch calls f with the pending approvals, then ChangeReady, then every change
// as it becomes durable, until ctx ends or f returns an error, which Watch
// returns. Of the filter SubjectType, SubjectID, Principal and Session count.
//
// Each change carries the approval as it stands when it is told, so that quick changes of one approval may come as
// one. f may be slow: it slows nobody else; when it falls too far behind it gets ChangeLagged and a fresh snapshot.
func (d *Desk) Watch(ctx context.Context, f palyra.ApprovalFilter, tell func(Change) error) error {
	f = palyra.ApprovalFilter{SubjectType: f.SubjectType, SubjectID: f.SubjectID, Principal: f.Principal, Session: f.Session}
	if err := checkFilter(f); err != nil {
		return err
	}
	w := d.hub.join() // before the snapshot: what changes meanwhile is told after it
	defer d.hub.leave(w)
	if err := d.snapshot(ctx, f, tell); err != nil {
		return err
	}
	for {
		changed, lagged, err := w.next(ctx)
		if err != nil {
			return err
		}
		if lagged {
			if err := tell(Change{Kind: ChangeLagged}); err != nil {
				return err
			}
			if err := d.snapshot(ctx, f, tell); err != nil {
				return err
			}
			continue
		}
		for _, id := range changed {
			if err := d.tellChange(ctx, f, id, tell); err != nil {
				return err
			}
		}
	}
}

func (d *Desk) snapshot(ctx context.Context, f palyra.ApprovalFilter, tell func(Change) error) error {
	f.Pending, f.OldestFirst = true, true
	for {
		page, err := d.List(ctx, f)
		if err != nil {
			return err
		}
		for _, a := range page.Approvals {
			if err := tell(Change{Kind: ChangeOpen, Approval: a}); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return tell(Change{Kind: ChangeReady})
		}
		f.Cursor = page.Next
	}
}

func (d *Desk) tellChange(ctx context.Context, f palyra.ApprovalFilter, id palyra.ApprovalID, tell func(Change) error) error {
	var (
		a    palyra.Approval
		mine bool
	)
	err := d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		r, err := getRecord(tx, id) // the short row first: most changes do not concern this watcher
		if mine = err == nil && concerns(f, r.Approval); !mine {
			return err
		}
		r, _, err = withDocuments(tx, id)
		a = r.Approval
		return err
	})
	if err != nil || !mine {
		return wrap("watch", err)
	}
	return tell(Change{Kind: ChangeUpdated, Approval: a})
}

// concerns reports whether an approval is one that the filter names.
func concerns(f palyra.ApprovalFilter, a palyra.Approval) bool {
	return (f.SubjectType == "" || f.SubjectType == a.SubjectType) && (f.SubjectID == "" || f.SubjectID == a.SubjectID) &&
		(f.Principal == "" || f.Principal == a.Principal) && (f.Session == "" || f.Session == a.Session)
}

// hub tells watchers which approvals changed.
type hub struct {
	mu       sync.Mutex // a leaf lock, with each watcher's below it
	watchers map[*watcher]struct{}
}

func (h *hub) join() *watcher {
	w := &watcher{bell: make(chan struct{}, 1), queued: map[palyra.ApprovalID]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = map[*watcher]struct{}{}
	}
	h.watchers[w] = struct{}{}
	return w
}

func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

func (h *hub) publish(id palyra.ApprovalID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		w.add(id)
	}
}

// watcher is a bounded queue of changed ids, each once.
type watcher struct {
	bell chan struct{}

	mu     sync.Mutex
	queue  []palyra.ApprovalID
	queued map[palyra.ApprovalID]struct{}
	lagged bool
}

func (w *watcher) add(id palyra.ApprovalID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.queued[id]; known || w.lagged {
		return
	}
	if len(w.queue) == watchQueue {
		w.lagged, w.queue = true, nil
		clear(w.queued)
	} else {
		w.queue = append(w.queue, id)
		w.queued[id] = struct{}{}
	}
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// next waits for changes and takes them all.
func (w *watcher) next(ctx context.Context) (changed []palyra.ApprovalID, lagged bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-w.bell:
		}
		w.mu.Lock()
		changed, lagged = w.queue, w.lagged
		w.queue, w.lagged = nil, false
		clear(w.queued)
		w.mu.Unlock()
		if lagged || len(changed) > 0 {
			return changed, lagged, nil
		}
	}
}
