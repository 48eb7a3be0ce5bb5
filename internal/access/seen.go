package access

import (
	"context"
	"maps"
	"time"

	"palyra"
	"palyra/internal/store"
)

// flushEvery is how often last uses are written down, and how exact they are.
const flushEvery = time.Minute

// Seen notes that a device is here.
func (r *Registry) Seen(id string) { r.note(r.seen, id) }

// note keeps a use in memory. Only what was found in the tables comes here, so the maps are no larger than those.
func (r *Registry) note(m map[string]time.Time, id string) {
	at := r.Now().UTC().Truncate(flushEvery)
	r.mu.Lock()
	defer r.mu.Unlock()
	m[id] = at
}

// latest returns the later of a noted use and a stored one.
func (r *Registry) latest(m map[string]time.Time, id string, stored time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := m[id]; at.After(stored) {
		return at
	}
	return stored
}

func (r *Registry) withSeen(d palyra.Device) palyra.Device {
	d.SeenAt = r.latest(r.seen, d.ID, d.SeenAt)
	if !d.SeenAt.IsZero() && d.SeenAt.Before(d.PairedAt) { // the minute in which it was paired
		d.SeenAt = d.PairedAt
	}
	return d
}

// Run writes last uses down every minute, off the path of requests, and once more when ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.flush(ctx) // what could not be written is tried again
		case <-ctx.Done():
			return r.flush(context.WithoutCancel(ctx))
		}
	}
}

// flush writes the noted uses down. Uses that cannot be written stay noted.
func (r *Registry) flush(ctx context.Context) error {
	used, seen := r.noted()
	if len(used)+len(seen) == 0 {
		return nil
	}
	err := r.DB.Write(ctx, "access.seen", func(tx *store.Tx) error {
		if err := mark(tx, `UPDATE access_tokens SET used_at = ? WHERE id = ? AND used_at < ?`, used); err != nil {
			return err
		}
		return mark(tx, `UPDATE access_devices SET seen_at = ? WHERE id = ? AND seen_at < ?`, seen)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	forget(r.used, used)
	forget(r.seen, seen)
	return nil
}

// noted copies what is to be written.
func (r *Registry) noted() (used, seen map[string]time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.used), maps.Clone(r.seen)
}

func mark(tx *store.Tx, update string, at map[string]time.Time) error {
	for id, t := range at {
		if _, err := tx.Exec(update, t.UnixNano(), id, t.UnixNano()); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what was written and not noted anew since.
func forget(from, written map[string]time.Time) {
	maps.DeleteFunc(from, func(id string, at time.Time) bool { return written[id].Equal(at) })
}
