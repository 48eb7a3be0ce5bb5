package audit

import (
	"encoding/json"
	"slices"
	"time"

	"palyra"
	"palyra/internal/store"
)

// The journal's records of keys, places, policy, postures, sessions and runs.
type (
	key struct {
		palyra.Key
		seq     int64
		by, sig string
		retired bool
	}
	place struct {
		seq int64
		palyra.Workspace
	}
	activation struct {
		seq int64
		palyra.PolicyActivated
	}
	sessionRecord struct {
		palyra.SessionOpened
		seq    int64
		labels []string
		closed bool
		calls  int64
	}
	runRecord struct {
		palyra.RunStarted
		seq   int64
		ended *palyra.RunEnded
	}
)

// hearKey takes in a key that signs records. The authority of devices is another, and lies in a file of its own.
func (a *Audit) hearKey(k *key) {
	if k.Use == palyra.KeyJournal || k.Use == palyra.KeyAttestation {
		a.keys[k.ID] = k
	}
}

func (a *Audit) holdKeys(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, k := range a.keys {
		want["text:"+id] = row{seq: k.seq, values: []any{k.Use, k.PublicKey, k.Verifier, k.by, k.sig, k.CreatedAt.UnixNano(), k.retired}}
	}
	return table{"signing_keys", "key_id", []string{"key_use", "public_key", "verifier", "signed_by", "sig", "created", "retired<>0"}}.hold(
		tx, want)
}

func (a *Audit) holdPlaces(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for path, w := range a.places {
		want["text:"+path] = row{seq: w.seq, values: []any{w.Name, w.Owner, str(w.AddedBy), w.AddedAt.UnixNano(), repository(w.Repository)}}
	}
	return table{"workspaces", "path", []string{"name", "owner", "added_by", "added_at", "repository"}}.hold(tx, want)
}

// repository is what a workspace is a work tree of, as its column has it.
func repository(r palyra.Repository) string {
	if r == (palyra.Repository{}) {
		return ""
	}
	text, _ := json.Marshal(r) // plain values cannot fail
	return string(text)
}

// holdSessions compares labels as sets: they are a list in one column.
func (a *Audit) holdSessions(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, s := range a.sessions {
		want["text:"+str(id)] = row{seq: s.seq, values: []any{str(s.Principal), str(s.Surface), str(s.Room), s.closed, s.calls}}
	}
	f, err := table{"sessions", "id", []string{"principal", "door", "room", "closed_at<>0", "calls"}}.hold(tx, want)
	if f != nil || err != nil {
		return f, err
	}
	err = tx.Each(`SELECT id, workspace, labels FROM sessions`, nil, func(scan func(...any) error) error {
		var id palyra.SessionID
		var workspace, text string
		if err := scan(&id, &workspace, &text); err != nil {
			return err
		}
		var labels []string
		s := a.sessions[id]
		if json.Unmarshal([]byte(text), &labels) != nil || !slices.Equal(palyra.JoinLabels(labels, nil), s.labels) ||
			palyra.Clip(workspace, 512) != s.Workspace {
			f = finding(s.seq, "session %s has other labels or another workspace than the journal says", id)
			return errFound
		}
		return nil
	})
	return f, scanError(f, err)
}

// scanError is the error of a walk, without the one that only says that a finding ended it.
func scanError(f *palyra.Finding, err error) error {
	if f != nil {
		return nil
	}
	return err
}

func (a *Audit) holdRuns(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, r := range a.runs {
		state := any("")
		if r.ended != nil {
			state = str(r.ended.State)
		}
		want["text:"+str(id)] = row{seq: r.seq, values: []any{str(r.Principal), str(r.Session), r.seq, state}}
	}
	const state = "CASE WHEN ended_at<>0 THEN state ELSE '' END"
	return table{"runs", "id", []string{"principal", "session", "started", state}}.hold(tx, want)
}

// observedSlack is how long a call may take from being let through to its line, and what clocks differ by.
const observedSlack = 2 * time.Minute

// observedAt takes in that a call was observed and not held.
func (a *Audit) observedAt(seq int64, at time.Time) {
	if a.unsigned == nil && !at.Before(a.until.Add(observedSlack)) {
		a.unsigned = finding(seq, "a call was observed and not held while no signature said so")
	}
}

// holdObserved checks that calls were observed only while a signature said so.
func (a *Audit) holdObserved(*store.Tx) (*palyra.Finding, error) { return a.unsigned, nil }
